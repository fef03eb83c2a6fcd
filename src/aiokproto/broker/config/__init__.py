"""Options of brokers, topics and groups, by Kafka's names.

- ``options`` defines the tables of names, types and defaults, and the classes that hold values: ``BrokerOptions``,
  ``TopicOptions`` and ``GroupOptions``. ``NodeOptions`` and ``ClusterOptions`` are the broker options that AlterConfigs
  can change while brokers run (KIP-226).

A value is looked up in layers, as in Kafka: the topic's or group's own value; the broker option that it inherits from
(its dynamic value, or the value given to the ``Cluster``); the default. Values are validated when they're set, so
reading a value never fails. Options objects are replaced, not changed, except that ``BrokerOptions.dynamic`` is
reassigned: all nodes share one ``BrokerOptions``.
"""
