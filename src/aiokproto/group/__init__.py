"""The member of a classic consumer group, and the group's committed offsets.

The parts, and who writes what:

* :mod:`~aiokproto.group.membership` is the state machine, pure: member id, generation, phase, and what each response
  makes of them. Its docstring is the theory of the protocol.
* :class:`~aiokproto.group.rebalance.RebalanceLoop` moves the member from generation to generation. It alone changes
  which partitions are owned, one change at a time, and waits until the consumer has carried each out.
* :class:`~aiokproto.group.heartbeat.Heartbeat` keeps the session, and knows whether it is confirmed.
* :class:`~aiokproto.group.commits.Commits` commits offsets of owned partitions, in the generation that owns them.
* :class:`~aiokproto.group.member.GroupMember` joins these, and is what the consumer sees.

Heartbeats and commits never act on a response themselves: they note what it asks for (rejoin, lost, fail), and the
rebalance loop acts on the notes in turn. So two tasks never move the member at the same time.

What can never happen: a partition is assigned twice without being revoked or lost in between; an offset is committed
under a generation that does not own its partition; a member that the group refuses for good goes on silently.
"""
