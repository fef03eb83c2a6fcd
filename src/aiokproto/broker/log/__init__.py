"""The log of a partition: segment files in Kafka's own format, and their state in memory. It doesn't use asyncio.

The parts, bottom up:

- ``header`` reads a stored batch's header without touching its records.
- ``segment`` is one ``.log`` file with its sparse indexes (``index``) and its aborted transactions
  (``transaction_index``).
- ``producer_state`` tracks each producer's last batches and open transactions; ``producer_snapshots`` reads and writes
  its files.
- ``leader_epoch_cache`` maps leader epochs to start offsets; ``partition_metadata`` ties a directory to a topic id.
- ``log`` combines these: appends, reads, retention, and the swap of compacted segments.
- ``log_loader`` loads segments and producer state from files, after a clean shutdown or a crash.
- ``cleaner`` (pure) decides what compaction retains, ``rewrite`` (pure) rewrites a batch accordingly, and
  ``compaction`` runs both over segments.
- ``stored`` (pure) opens stored batches, with limited memory.
- ``validation`` and ``conversion`` (pure) check and convert record sets before they are appended, or for old clients.
- ``checkpoints`` reads and writes the files of the data directory that cover many logs, in the format of all checkpoint
  files.

**Ownership.** Only :class:`Log` changes its segments, and only in the event loop's thread. The newest (active) segment
is the only one that grows. All other segments are immutable: compaction replaces them with new files instead of editing
them. Threads only fsync complete segments (``fsync``). Indexes, the leader epoch checkpoint and snapshots are derived
from the ``.log`` files and can be rebuilt from them.

**What can never happen.** An offset is never assigned twice, not even after retention or compaction removed all
records: the name of the active segment, or an empty batch, preserves it. A reader never sees part of a batch: ``size``
grows only after the batch has been written. A segment never disappears while a reader uses it, because removed files
stay open, and stay on disk for ``file.delete.delay.ms``.

**A crash of the process** doesn't lose anything that was appended: the operating system has it. **A crash of the
machine** can lose what wasn't flushed (``flush.messages``, ``flush.ms``). In both cases ``.kafka_cleanshutdown`` is
absent at the next start, and each segment beyond the recovery point is read again: its indexes are rebuilt, and the log
is truncated at the first batch whose checksum is wrong. ``.cleaned`` and ``.deleted`` files are dropped, and a
``.swap`` file, which was complete before it got that name, takes the place of the segments that it replaces.
"""

from __future__ import annotations

from aiokproto.broker.log.config import LogAppendInfo, LogCheckpoint, LogConfig, Span
from aiokproto.broker.log.log import Log

__all__ = ["Log", "LogAppendInfo", "LogCheckpoint", "LogConfig", "Span"]
