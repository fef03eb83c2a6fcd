"""The producer: records in, acknowledgements out."""

from __future__ import annotations

from aiokproto.producer.delivery import BatchDelivery, Delivery
from aiokproto.producer.outcomes import Outcomes
from aiokproto.producer.partitioner import Partitioner, murmur2
from aiokproto.producer.producer import Producer
from aiokproto.producer.record import ProducerRecord

__all__ = ["BatchDelivery", "Delivery", "Outcomes", "Partitioner", "Producer", "ProducerRecord", "murmur2"]
