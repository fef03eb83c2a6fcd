"""Reading records: alone, or as one of a group."""

from __future__ import annotations

from aiokproto.consumer.batch import Batch
from aiokproto.consumer.consumer import Consumer
from aiokproto.consumer.cursor import PartitionState, PartitionStatus

__all__ = ["Batch", "Consumer", "PartitionState", "PartitionStatus"]
