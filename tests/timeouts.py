"""The timeout of tests for an event that must happen."""

LONG_TIMEOUT = 60.0
"""Seconds. Only a test that hangs reaches it: a slow machine must not fail one."""
