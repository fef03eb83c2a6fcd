"""The options of brokers, topics and groups: names, types, defaults; those that change while a broker runs."""
