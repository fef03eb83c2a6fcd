"""Where the application's code and this library meet.

``calls`` says what an error of the application's functions is; ``gates`` which methods may be called when;
``async_context`` what leaving ``async with`` raises; ``hints`` what to use in place of the names that other Kafka
clients have.
"""
