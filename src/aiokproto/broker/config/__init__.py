"""Options of brokers, topics and groups: names, types and defaults (``options``), and changes at run time
(``dynamic_options``)."""
