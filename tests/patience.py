"""How long a test waits for what shall happen."""

PATIENCE = 60.0
"""Seconds. Nobody waits that long unless something is broken: a slow machine must not fail a test, only a hang may."""
