"""Consumer groups (KIP-848): the coordinator computes the assignment, and each member adopts it through its own
heartbeats.

The parts: ``group`` is the state machine, which shares a base class with streams groups
(:mod:`~aiokproto.broker.groups.epoch_group`); ``member`` is a member and its heartbeat; ``subscriptions`` resolves
topic names and regular expressions; ``assignors`` compute the target assignment; ``records`` stores it all.
``classic_protocol`` serves members that still use the classic protocol, and ``migration`` converts a whole group.

A heartbeat runs the same steps each time: find or create the member, update its subscription, bump the group epoch if
the subscription or the topics changed, compute a new target assignment if the group epoch is ahead of the assignment
epoch, and reconcile this one member with its target.

Ownership. Only ``ConsumerGroup`` changes the target assignment and what members own; ``classic_protocol`` sets what is
specific to classic members. A heartbeat changes only its own member: other members are reconciled with the new target
at their own next heartbeats.

What can never happen:

- A partition is owned by two members: the next member gets it only after a heartbeat of the previous owner no longer
  lists it, which means that it was revoked.
- A member with an old epoch commits an offset for a partition that has been reassigned: it gets STALE_MEMBER_EPOCH.
- A member blocks the group forever: if it doesn't revoke partitions within its rebalance timeout, it is removed.
"""

from __future__ import annotations
