"""Drafting message declarations from protocol facts."""
