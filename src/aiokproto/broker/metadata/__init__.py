"""Cluster metadata: brokers, topics, leaders, features, dynamic options. Kafka's counterpart is the KRaft controller.

- ``cluster_state`` has all of it in memory, and makes every change: elections, reassignments, new topics.
- ``topics`` are its values: a ``Topic``, and a ``Partition`` with its replicas, leader epoch and log.
- ``metadata_log`` persists it: a file of lines, the last line of a name counts.
- ``features`` are the finalized feature levels (KIP-584).
- ``internal_topics`` are the topics in which coordinators keep their state, and how they read one.
- ``log_manager`` does the periodic work on the logs of all partitions.

There is no replication: all nodes share one ``ClusterState`` and one log per partition. Replicas and ISR are
bookkeeping, but a node serves only the partitions that it leads, so clients must find leaders and follow them as with a
real cluster.

**Who writes what.** ``ClusterState`` is the only writer of topics, leaders and ISR; handlers call its methods. It
reports leader changes and deletions to the ``ClusterRuntime``, which knows the coordinators.

**What can never happen.** A leader epoch never decreases or repeats: every change of leader, also to none, increments
it and is written before the next request is served. A producer id is never assigned twice: ids are reserved in blocks.
A topic id never names two topics: a topic that is created again gets a new one. It keeps an old one only if its
directories exist already, copied from another broker.

**At a crash** the file has every change whose response was sent; a half-written last line is dropped. A topic whose
deletion was interrupted keeps its name but has lost its data, because directories are renamed before the topic is
removed. The file does not say which nodes run: leaders are elected again when the nodes start.
"""
