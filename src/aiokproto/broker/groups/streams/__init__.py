"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams topology to its threads.

The parts: ``group`` is the state machine, which shares a base class with consumer groups
(:mod:`~aiokproto.broker.groups.epoch_group`); ``member`` is a member and its heartbeat; ``topology`` validates the
topology and sizes its internal topics; ``assignor`` computes the target assignment; ``records`` stores it all.

A topology consists of subtopologies; each has a task per partition of its inputs. A task is *active* (it processes),
*standby* (it replicates the state) or *warm-up* (it restores the state to become active later). This broker's assignor
doesn't assign warm-up tasks.

Epochs. Besides the group, assignment and member epochs there is the topology epoch, which the application chooses. A
member with an older topology can stay, and gets the status STALE_TOPOLOGY. Otherwise, a topology that differs from the
group's is rejected. The group epoch also grows when the source topics, the validity of the topology or the assignment
options change.

Topics. The first member to join provides the topology, which never changes after that. The group determines which
internal topics the topology needs, and the heartbeat's handler creates them with the client's permissions. Until they
exist, the group's state is NotReady and no task is assigned.

What can never happen:

- A task is active at two members.
- A process has a task twice, even in different roles: its threads share one state directory.
"""

from __future__ import annotations
