"""The tests: behaviour against any broker, and each layer by itself."""
