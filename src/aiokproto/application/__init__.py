"""The boundary between the application's code and this library.

``calls`` defines what happens to errors of the application's functions; ``gates``, which methods may be called when;
``async_context``, what leaving ``async with`` raises; and ``hints``, what to use in place of names from other Kafka
clients.
"""
