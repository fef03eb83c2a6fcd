"""Loads append the records of topics to an output, each record once: the files are committed with their offsets.

The modules, from the bottom: :mod:`.manifest` (the description of a load), :mod:`.history` (the state of an output
after a sequence of manifests) and :mod:`.commits` (the commit of a manifest) depend on neither Spark nor Kafka.
:mod:`.storage` accesses the files.
"""
