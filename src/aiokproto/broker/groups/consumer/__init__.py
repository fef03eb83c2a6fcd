"""Consumer groups (KIP-848): the coordinator computes the assignment, and each member adopts it by its own heartbeats.

The parts: ``group`` is the state machine, on the base that streams groups share
(:mod:`~aiokproto.broker.groups.epoch_group`); ``member`` is a member and its heartbeat; ``subscriptions`` resolves
topic names and regular expressions; ``assignors`` compute the target assignment; ``records`` stores all of it.
``classic_protocol`` serves members that still use the classic protocol, and ``migration`` converts a whole group.

A heartbeat runs the same steps each time: find or create the member, update its subscription, bump the group epoch if
the subscription or the topics changed, compute a new target assignment if the group epoch is ahead of the assignment
epoch, and reconcile this one member with its target.

Who writes what. Only ``ConsumerGroup`` changes the target assignment and what members own; ``classic_protocol`` sets
what is specific to classic members. A heartbeat changes only its own member: the others are reconciled with the new
target at their own next heartbeats.

What can never happen:

- A partition is owned by two members: the next member gets it only after the previous owner has reported, with a
  heartbeat that no longer contains it, that it has revoked it.
- A member with an old epoch commits an offset for a partition that has been reassigned: STALE_MEMBER_EPOCH.
- A member blocks the group forever: it has its rebalance timeout to revoke partitions, and is then removed.
"""

from __future__ import annotations
