"""Record batches alone: build one as it goes over the wire and into the log, and read it back."""

from aiokproto import records

rows = [records.BatchRecord(i, 1_700_000_000_000 + i, None, b"v%d" % i) for i in range(3)]
data = records.encode(rows, compression="zstd")
for batch in records.decode(data):
    print(f"batch at {batch.base_offset}: {batch.count} records, {batch.size_in_bytes} bytes, {batch.compression.name}")
    for record in batch:
        print(record.offset, record.timestamp, record.key, record.value)
