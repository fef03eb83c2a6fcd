"""What a test does to the brokers: faults in requests and on the wire, damaged data, another release's versions."""

from __future__ import annotations

from aiokproto.broker.control.fault_rule import FaultRule
from aiokproto.broker.control.faults import Fault, Faults
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.control.views import GroupView, PartitionView

__all__ = ["Cut", "Fault", "FaultRule", "Faults", "GroupView", "PartitionView", "RequestInfo", "Serve"]
