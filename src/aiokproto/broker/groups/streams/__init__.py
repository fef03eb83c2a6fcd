"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams topology to its threads.

The parts: ``group`` is the state machine, on the base that consumer groups share
(:mod:`~aiokproto.broker.groups.epoch_group`); ``member`` is a member and its heartbeat; ``topology`` validates the
topology and sizes its internal topics; ``assignor`` computes the target assignment; ``records`` stores all of it.

A topology consists of subtopologies; each has a task per partition of its inputs. A task is *active* (it processes),
*standby* (it replicates the state) or *warm-up* (it restores the state to become active later). The assignor here
assigns no warm-up tasks.

Epochs. Besides the group, assignment and member epochs there is the topology epoch, which the application chooses. A
member with an older topology stays, with status STALE_TOPOLOGY; any other topology that differs from the group's is
refused. The group epoch also grows when the source topics, the validity of the topology or the assignment options
change.

Who writes what. The first member to join gives the topology, which the group then keeps. The group names the internal
topics that the topology needs, and the heartbeat's handler creates them with the client's permissions. Until they
exist, the group's state is NotReady and no task is assigned.

What can never happen:

- A task is active at two members.
- A process has a task twice, in whatever roles: its threads share one state directory.
"""

from __future__ import annotations
