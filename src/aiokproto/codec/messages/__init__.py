"""One module an ApiKey: its request and response, every version in one class each."""
