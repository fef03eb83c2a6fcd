"""Share partitions (KIP-932): the state of every record in flight to a share group, in memory at the leader and
persisted.

The parts, from the leader of a partition to the coordinator that stores its state::

    SharePartitionManager    the share partitions that nodes lead: cache, persistence, lock timers   (manager)
    ├─ ShareSessions         what each member fetches from a node, and the session epoch             (session)
    ├─ SharePartition        a state machine of records in flight                                    (partition)
    │    acquisition, in_flight: which records to acquire; runs of offsets
    └─ ShareCoordinator      ``__share_group_state``: snapshots and updates                          (coordinator)
         persisted_state, records: the state that a share partition's records define; their format

``broker.groups.share`` decides which group members read which partition.

State transitions. The leader of a partition changes a :class:`~aiokproto.broker.share.partition.SharePartition`. An
acknowledgement, a release or an expired lock is a state transition in three steps: compute it, persist it, apply it. If
persisting fails, the request fails and the transition isn't applied, except that an expired lock always ends. Acquiring
isn't persisted: after a crash or a change of leader, acquired records are available again, and can be delivered twice.

Epochs. Three numbers fence three kinds of writers:

- the *leader epoch* of the partition: a leader that has been replaced cannot write (FENCED_LEADER_EPOCH);
- the *state epoch*: it grows when the offset is reset, so a leader that read the state before the reset cannot write
  (FENCED_STATE_EPOCH);
- the *share session epoch*: it orders the requests of a member on one node.

What can never happen:

- A record is acquired by two members at once.
- An acknowledgement is confirmed to the member and lost in a crash.
- The start offset moves back, except when an administrator resets it.
"""

from __future__ import annotations
