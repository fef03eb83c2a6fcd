"""Reading records: alone, or as one of a group."""

from __future__ import annotations

from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.consumer import Consumer
from aiokproto.consumer.cursor import PartitionState, PartitionStatus

__all__ = ["Consumer", "FetchedBatch", "PartitionState", "PartitionStatus"]
