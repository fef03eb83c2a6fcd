"""Options of brokers, topics and groups, by Kafka's names.

- ``options`` has the tables of names, types and defaults, and the values: ``BrokerOptions``, ``TopicOptions`` and
  ``GroupOptions``. ``NodeOptions`` and ``ClusterOptions`` are the broker options that AlterConfigs can change while
  brokers run (KIP-226).

A value is looked up in layers, as in Kafka: first the topic's or group's own value; then the broker option that it
inherits from, its dynamic value before the one given to the ``Cluster``; then the default. Every value is validated
when it is set, so that reading one never fails. Options objects are replaced, not changed. Only
``BrokerOptions.dynamic`` is assigned again, because the nodes share one ``BrokerOptions``.
"""
