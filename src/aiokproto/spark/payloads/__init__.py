"""Payload formats: keys and values as typed columns instead of bytes.

Options name the format of a column (``value.format``), and say how to find its type (``options``). The driver gets the
schema from the options or from a schema registry (``registry``), and Spark plans with it. A task decodes the column of
each Arrow batch (``columns``). Arrow's reader decodes JSON (``json_format``); Python decodes the rows that Arrow's
reader rejects (``json_columns``, ``json_values``). fastavro decodes Avro (``avro_format``, ``avro_types``), using the
writer's schema; a worker process fetches the schema of each id once. The sink encodes columns (``encoding``).

All these modules use Arrow's types, with the field names and the nullability of Spark's own conversion (``ddl``), so
they run and are tested without a JVM.
"""
