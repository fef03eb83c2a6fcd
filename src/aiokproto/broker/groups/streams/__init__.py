"""Streams groups: those of the streams protocol (KIP-1071)."""
