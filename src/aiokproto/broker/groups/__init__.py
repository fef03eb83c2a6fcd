"""The group coordinator: groups of all four protocols, their committed offsets, and their records in the offsets topic.

The parts::

    GroupCoordinator         what each request does to a group (coordinator, share_coordinator, streams_coordinator)
    └─ GroupStore            the groups in memory: loading, writing, timers (store)
       ├─ ClassicGroup       JoinGroup, SyncGroup, Heartbeat (classic_group, classic_member)
       ├─ ConsumerGroup      ConsumerGroupHeartbeat, KIP-848 (consumer/)
       ├─ ShareGroup         ShareGroupHeartbeat, KIP-932 (share/)
       └─ StreamsGroup       StreamsGroupHeartbeat, KIP-1071 (streams/)

All nodes of the cluster run in one process and share one coordinator object. A group belongs to the partition of
``__consumer_offsets`` that its id hashes to, and only the node that leads this partition serves it
(:meth:`~aiokproto.broker.groups.store.GroupStore.check_coordinator`).

I/O. A group is a state machine without I/O: it takes a request and the current time, and updates itself. Only the store
appends to the offsets topic, after each operation on a group and before any response is sent. The ``records`` modules
translate between groups and records, in the formats of Kafka's own coordinator.

Epochs. A classic group has one number, the generation, which all members enter together after a barrier of JoinGroup
and SyncGroup. The other groups have a group epoch, an assignment epoch and an epoch for each member, and no barrier:
see :mod:`~aiokproto.broker.groups.epoch_group`.

What can never happen:

- A response reports state that isn't in the log: a new coordinator, which reads the log, would contradict it.
- Two nodes serve the same group: when its partition gets another leader, the group is dropped, its waiting JoinGroup
  and SyncGroup requests fail with NOT_COORDINATOR, and the group is read from the log again.
- A consumer sees an offset of an open transaction: such offsets are pending until the coordinator of the transaction
  writes a marker (KIP-98). With ``require_stable`` OffsetFetch reports them as unstable instead of returning the
  previous offset (KIP-447).
- A group of one protocol serves a request of another. The exception is the online migration between classic and
  consumer groups (KIP-848, ``group.consumer.migration.policy``).
"""

from __future__ import annotations
