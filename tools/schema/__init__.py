"""Kafka's definitions of its messages and the declarations here: compare them, and draft what a new release adds."""
