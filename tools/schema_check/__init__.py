"""Compares the messages declared here with the definitions inside Kafka's jars, version by version."""
