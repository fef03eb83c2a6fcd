"""The clients against other implementations of the protocol: real ones, and the embedded broker with their quirks."""
