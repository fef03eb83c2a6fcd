"""One module per ApiKey, with its request and response. Each is one class for all versions."""
