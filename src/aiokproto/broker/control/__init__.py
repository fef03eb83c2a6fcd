"""What a test does to the brokers: faults in requests and on the wire, damaged data, another release's versions."""

from __future__ import annotations

from aiokproto.broker.control.call import Call, Cut, Serve
from aiokproto.broker.control.faults import Fault, Faults
from aiokproto.broker.control.rule import Rule
from aiokproto.broker.control.views import GroupView, PartitionView

__all__ = ["Call", "Cut", "Fault", "Faults", "GroupView", "PartitionView", "Rule", "Serve"]
