"""Loads: topics into files together with their offsets, each record once.

The modules, from the bottom: :mod:`.manifest` (what a load writes down), :mod:`.history` (what a sequence of manifests
amounts to) and :mod:`.commits` (how a manifest becomes part of the sequence) are free of Spark and of Kafka;
:mod:`.storage` holds the files.
"""
