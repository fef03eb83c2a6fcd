"""How long a test waits for an event that must happen."""

PATIENCE = 60.0
"""The limit in seconds, which is reached only if something is broken: only a hang may fail a test, not a slow
machine."""
