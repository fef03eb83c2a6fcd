"""What a test does to the brokers: faults in requests and on the network, damaged logs, the API versions of another
release.

- ``faults`` is the public API. Each method adds a ``FaultRule`` (``fault_rule``): which requests match, how often it
  applies, and a function that is called instead of serving the request. ``request_info`` is what that function and
  predicates see. ``fail_request`` builds an API's error response, for all of a request or only for one topic, partition
  or group of it.
- ``random_faults`` draws faults from a seed. ``network`` delays or stops the frames of a node.
- ``damage`` changes the files of a log, as a bad disk or an unclean election does. ``releases`` has the API versions of
  each release.
- ``views`` are snapshots of groups and partitions for assertions.

**Who writes what.** Rules live in an immutable tuple that is replaced as a whole, so that any thread can add and remove
them while the cluster's event loop serves requests. A rule counts the requests that it sees only in the event loop.

**Order.** Matching rules wrap each other like middleware, the newest outermost. A rule that does not call ``serve``
hides the request from older rules and from the broker. A rule counts a request as soon as it matches, even if an outer
one never lets it through.

**At a crash** (``Cluster.crash``, ``kill_broker``) rules stay: they belong to the ``Cluster`` object, not to a running
node.
"""

from __future__ import annotations

from aiokproto.broker.control.fault_rule import FaultRule
from aiokproto.broker.control.faults import Fault, Faults
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.control.views import GroupView, PartitionView

__all__ = ["Fault", "FaultRule", "Faults", "GroupView", "PartitionView", "RequestInfo", "Serve"]
