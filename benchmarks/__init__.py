"""Measurements: ``python -m benchmarks`` beside other clients, ``python -m benchmarks.codec`` of the codec alone."""
