"""Options of brokers, topics and groups, by Kafka's names.

- ``options`` has the tables of names, types and defaults, and the values: ``BrokerOptions``, ``TopicOptions`` and
  ``GroupOptions``. ``NodeOptions`` and ``ClusterOptions`` are the broker options that AlterConfigs can change while
  brokers run (KIP-226).

A value is looked up in layers, as in Kafka: the topic's or group's own; then the broker option that it inherits from,
first its dynamic value, then the one given to the ``Cluster``; then the default. Every value is validated when it is
set, so that reading one never fails. Objects of options are replaced, not changed; only ``BrokerOptions.dynamic`` is
assigned anew, because the nodes share one ``BrokerOptions``.
"""
