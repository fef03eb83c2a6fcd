"""The topics that are read, and how they are filled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import time_ns

from benchmarks import values
from benchmarks.topics import Fill, Topics

PARTITIONS = 4
BATCH_BYTES = 1 << 17
ONE_RECORD = 1


@dataclass(frozen=True)
class Data:
    """A kind of topic.

    Attributes:
        name: For tables.
        rows: The number of records at full size, which even a fast reader needs seconds for.
        smallest: Size of the smallest value, in bytes.
        largest: Size of the largest one.
        keyed: Whether records have keys, of 8 to 16 bytes.
        compression: The codec.
        batch_bytes: Size at which a batch is full; with 1 each has one record.
    """

    name: str
    rows: int
    smallest: int
    largest: int
    keyed: bool = False
    compression: str = "none"
    batch_bytes: int = BATCH_BYTES

    def fill(self, rows: int) -> Fill:
        """What the topic is filled with."""
        chance = random.Random(values.SEED)
        made = [row[: chance.randint(self.smallest, self.largest)] for row in values.rows(self.largest)]
        keys = [b"%0*d" % (chance.randint(8, 16), number) for number in range(values.ROWS)] if self.keyed else [None]
        return Fill(rows, made, self.batch_bytes, self.compression, keys)


DATA = {
    one.name: one
    for one in (
        Data("100 B", 10_000_000, 100, 100),
        Data("20 to 180 B, keys", 4_000_000, 20, 180, keyed=True),
        Data("1 KB", 1_500_000, 1024, 1024),
        Data("100 B, lz4", 10_000_000, 100, 100, compression="lz4"),
        Data("1 KB, zstd", 1_500_000, 1024, 1024, compression="zstd"),
        Data("100 B, one a batch", 2_000_000, 100, 100, batch_bytes=ONE_RECORD),
    )
}


@contextmanager
def topic_of(servers: str, data: Data, rows: int) -> Iterator[str]:
    """A topic with so many records, which is deleted afterwards."""
    topics, name = Topics(servers), f"bench-spark-{time_ns()}"
    try:
        topics.create(name, PARTITIONS)
        if rows:
            topics.fill(name, data.fill(rows))
        yield name
        topics.delete(name)
    finally:
        topics.close()
