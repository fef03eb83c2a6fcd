"""What a test can do to the brokers: request and network faults, damaged logs, the API versions of another release.

- ``faults`` is the public API. Each method adds a ``FaultRule`` (``fault_rule``): which requests match, how often it
  applies, and a function to call instead of serving the request. ``request_info`` is what that function and the
  predicates see. ``fail_request`` builds an API's error response, either for the whole request or for one topic,
  partition or group in it.
- ``random_faults`` draws faults from a seed. ``network`` delays or stops the frames of a node.
- ``damage`` changes the files of a log, like a bad disk or an unclean election. ``releases`` determines the API
  versions of each release.
- ``views`` are snapshots of groups and partitions for assertions.

**Who writes what.** Rules live in an immutable tuple that is replaced as a whole, so any thread can add and remove
rules while the cluster's event loop serves requests. Rules count requests in the event loop only.

**Order.** Matching rules wrap each other like middleware, the newest outermost. A rule that doesn't call ``serve``
hides the request from older rules and from the broker. A rule counts a request as soon as it matches, even if an outer
rule never lets it through.

**Crashes** (``Cluster.crash``, ``kill_broker``). Rules survive: they belong to the ``Cluster`` object, not to a running
node.
"""

from __future__ import annotations

from aiokproto.broker.control.fault_rule import FaultRule
from aiokproto.broker.control.faults import Fault, Faults
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.control.views import GroupView, PartitionView

__all__ = ["Fault", "FaultRule", "Faults", "GroupView", "PartitionView", "RequestInfo", "Serve"]
