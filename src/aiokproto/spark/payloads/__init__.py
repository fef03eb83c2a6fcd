"""Payload formats: keys and values as typed columns, in place of bytes.

An option names the format of a column (``value.format``), and what it needs to know its type. The driver finds the
schema (``payload``), from options or from a schema registry (``registry``), and Spark plans with it. A task decodes the
column of each Arrow batch (``columns``): JSON by Arrow's reader (``json_format``), and rows which that does not take by
Python (``json_columns``, ``json_values``); Avro by fastavro (``avro_format``, ``avro_types``), with the writer's schema
of each id, which a worker process fetches once. The sink encodes columns the other way (``encoding``).

Types are Arrow's in all these modules, with the names of fields and the nullability that Spark's own conversion gives
(``ddl``), so that they run and are tested without a JVM.
"""
