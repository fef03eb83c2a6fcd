"""The producer: records in, acknowledgements out.

The life of a record::

    post()/send()      appender      append to the partition's open batch: no await, no lock, for nearly every record
       │ no room       buffer        wait for metadata, memory (buffer_memory) and earlier calls (AppendOrder)
       ▼
    open batch         accumulator   closed when it's full, linger_ms has passed, or flush() is called
       ▼
    PartitionQueue     queue         the order of batches, and their sequence numbers
       ▼ drain         sender        at most one request per broker and round, with at most one batch per partition
    Sink               sink          one per broker: compression, requests in flight, backoff
       ▼
    Produce response   responses     completes, retries, splits or fails each batch, as failures.classify() decides
       ▼
    Outcome            outcome       the batch's result; every Delivery of the batch refers to it

With a ``transactional_id``, ``transaction_manager`` works alongside the sender: it assigns epochs and sequence numbers,
decides which partitions may be sent, and ends the transaction.

**Who owns what.** A batch is in exactly one collection of its partition's queue: ``open``, ``closed`` (waiting) or
``in_flight``. Only the accumulator moves batches, and only it accounts for a batch's bytes (``used``), from the first
record to the outcome. Everything runs in one event loop. Only compression uses threads, and each thread sees one closed
batch.

**Linger.** Only ``accumulator`` decides it, in ``drain``: a batch is ready ``linger_ms`` after its first record, or at
once if it's full. ``end_linger`` makes all batches ready, for a flush or when memory is short.

**Order and idempotence (KIP-98, KIP-360).** A batch gets its sequence number when it's first drained, and keeps it for
all retries; the broker drops batches that it has already written. A partition has several batches in flight only to a
leader that has acknowledged one, because a broker without state for this producer accepts *any* first sequence number.
If it rejected the first of several batches and then accepted the second, the first could never be written in order. For
the same reason, nothing is sent to a new leader while batches are in flight to the old one, and a retry is in flight
alone. When a batch that was sent fails, its sequence numbers leave a gap. The partition then waits for its other
numbered batches and restarts at 0 in the next epoch (:class:`~aiokproto.producer.queue.SequenceRestart`).

**Transactions (KIP-98, KIP-890).** Producer and :class:`~aiokproto.producer.transaction.Transaction` have the same
methods (``record_sender``) on one buffer. Only one *writer* at a time may append to it. Its ``WriteSession`` is the
right to do so. When the application or a failed batch closes the session, waiting calls end too. A failed batch doesn't
restart its partition's numbers: it fails the transaction, and the next transaction has another epoch.

**What can never happen.** With idempotence, no record is written twice (unless the broker has lost its state for the
producer id), and the records of a partition are in the order of the calls. In any mode, no batch has two outcomes,
every delivery ends (``delivery_timeout_ms`` ends every batch), and no more than ``buffer_memory`` bytes are buffered,
except for parts of a compressed batch that had to be split.

**Deadlines.** ``max_block_ms`` limits how long a call waits before its record is buffered. ``delivery_timeout_ms``
counts from the batch's first record and covers linger, retries and backoff. ``request_timeout_ms`` limits one attempt.
``default_api_timeout_ms`` applies to each request about a transaction.
"""

from __future__ import annotations

from aiokproto.producer.delivery import BatchDelivery, Delivery
from aiokproto.producer.handed_over import PreparedTransaction
from aiokproto.producer.outcomes import BulkDelivery, Outcomes
from aiokproto.producer.partitioner import Partitioner, murmur2
from aiokproto.producer.producer import Producer
from aiokproto.producer.record import ProducerRecord
from aiokproto.producer.report import ProducerStats
from aiokproto.producer.transaction import Transaction, TransactionStatus

__all__ = [
    "BatchDelivery",
    "BulkDelivery",
    "Delivery",
    "Outcomes",
    "Partitioner",
    "PreparedTransaction",
    "Producer",
    "ProducerRecord",
    "ProducerStats",
    "Transaction",
    "TransactionStatus",
    "murmur2",
]
