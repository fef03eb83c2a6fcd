"""Members of groups, and the committed offsets of groups.

There are two protocols. In a *classic* group a member computes the assignment, and all members move from generation to
generation together. In the others (consumer groups of KIP-848, share and streams groups) the coordinator computes it,
and each member reconciles its own partitions with it. To the consumer both look the same, a
:class:`~aiokproto.group.member.GroupMember`; :func:`~aiokproto.group.member.make_member` chooses the protocol.

A classic member, and who writes what:

* :mod:`~aiokproto.group.membership` is the state machine, pure: member id, generation, phase, and how each response
  changes them. Its docstring explains the protocol.
* :class:`~aiokproto.group.rebalance.RebalanceLoop` moves the member from generation to generation. Only it changes
  which partitions are owned, one change at a time, and it waits until the consumer has carried out each change.
* :class:`~aiokproto.group.heartbeat.Heartbeat` keeps the session alive.
* :class:`~aiokproto.group.classic_member.ClassicMember` combines these.

A member whose assignment the coordinator computes:

* :mod:`~aiokproto.group.epoch_membership` is the state machine, pure. Its docstring explains the protocol.
* :class:`~aiokproto.group.epoch_heartbeat.EpochHeartbeat` sends the heartbeats, which are the whole protocol.
* Only :class:`~aiokproto.group.reconciliation.Reconciliation` changes what is owned, one change at a time.
* :class:`~aiokproto.group.epoch_member.EpochMember` combines these; ``consumer_member``, ``share_member`` and
  ``streams_member`` implement the specifics of each kind of group.

Both have a :class:`~aiokproto.group.session.Session`, which knows whether the coordinator has confirmed it recently,
and :class:`~aiokproto.group.commits.Commits`, which commits offsets of owned partitions in the generation or epoch that
owns them.

Heartbeats and commits never act on a response themselves: they leave a note of what it requires (rejoin, lost, fail),
and a single loop acts on the notes one at a time. So two tasks never change the member's state at the same time.

Three things can never happen: a partition is assigned twice without being revoked or lost in between; an offset is
committed under a generation that does not own its partition, or after another member may have owned it; a member that
the group has permanently rejected continues silently.
"""
