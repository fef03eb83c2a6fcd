"""Members of groups, and the committed offsets of groups.

There are two protocols. In a *classic* group a member computes the assignment, and all members move from generation to
generation together. In the others (consumer groups of KIP-848, share and streams groups) the coordinator computes it,
and each member reconciles what it owns on its own. The consumer sees both alike, as a
:class:`~aiokproto.group.member.GroupMember`; :func:`~aiokproto.group.member.make_member` chooses.

A classic member, and who writes what:

* :mod:`~aiokproto.group.membership` is the state machine, pure: member id, generation, phase, and what each response
  makes of them. Its docstring is the theory of the protocol.
* :class:`~aiokproto.group.rebalance.RebalanceLoop` moves the member from generation to generation. It alone changes
  which partitions are owned, one change at a time, and waits until the consumer has carried each out.
* :class:`~aiokproto.group.heartbeat.Heartbeat` keeps the session.
* :class:`~aiokproto.group.classic_member.ClassicMember` joins these.

A member whose assignment the coordinator computes:

* :mod:`~aiokproto.group.epoch_membership` is the state machine, pure, with the theory of the protocol.
* :class:`~aiokproto.group.epoch_heartbeat.EpochHeartbeat` sends the heartbeats, which are the whole protocol.
* :class:`~aiokproto.group.reconciliation.Reconciliation` alone changes what is owned, one change at a time.
* :class:`~aiokproto.group.epoch_member.EpochMember` joins these; ``consumer_member``, ``share_member`` and
  ``streams_member`` say what is particular about each kind of group.

Both have a :class:`~aiokproto.group.session.Session`, which knows whether the coordinator has confirmed it lately, and
:class:`~aiokproto.group.commits.Commits`, which commits offsets of owned partitions in the generation or epoch that
owns them.

Heartbeats and commits never act on a response themselves: they leave a note of what it requires (rejoin, lost, fail),
and one loop acts on the notes in turn. So two tasks never move the member at the same time.

What can never happen: a partition is assigned twice without being revoked or lost in between; an offset is committed
under a generation that does not own its partition, or after another member may have owned it; a member that the group
refuses for good goes on silently.
"""
