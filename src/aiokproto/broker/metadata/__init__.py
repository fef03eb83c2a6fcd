"""Cluster metadata: brokers, topics, leaders, features, dynamic options. Kafka's counterpart is the KRaft controller.

- ``cluster_state`` holds all metadata in memory, and makes every change: elections, reassignments, new topics.
- ``topics`` defines ``Topic`` and ``Partition``, with replicas, leader, leader epoch and log.
- ``metadata_log`` persists the metadata, in a file of lines. For each name, the last line counts.
- ``features`` manages the finalized feature levels (KIP-584).
- ``internal_topics`` creates and reads the topics in which coordinators keep their state.
- ``log_manager`` does the periodic work on the logs of all partitions.

There is no replication: all nodes share one ``ClusterState`` and one log per partition. Replicas and ISR are
bookkeeping, but a node serves only the partitions that it leads, so clients must find and follow leaders as in a real
cluster.

**Who writes what.** ``ClusterState`` is the only writer of topics, leaders and ISR; handlers call its methods. It
reports leader changes and deletions to the ``ClusterRuntime``, which passes them on to the coordinators.

**What can never happen.** A leader epoch never decreases or repeats: every change of leader, even to no leader,
increments it and is written before the next request is served. A producer id is never assigned twice: ids are reserved
in blocks. A topic id never refers to two topics: a recreated topic gets a new id. It only keeps an old id if its
directories already exist because they were copied from another broker.

**Crashes.** The file contains every change whose response was sent, and a half-written last line is dropped. If the
deletion of a topic was interrupted, the topic still exists but has lost its data: directories are renamed before the
topic is removed. The file doesn't say which nodes were running: leaders are elected again when the nodes start.
"""
