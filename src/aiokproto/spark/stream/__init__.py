"""The stream source: ``spark.readStream.format("aiokproto")``."""
