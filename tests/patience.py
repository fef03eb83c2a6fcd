"""How long a test waits for an event that must happen."""

PATIENCE = 60.0
"""Seconds. Reached only if something is broken: a slow machine must not fail a test, only a hang may."""
