"""What records look like: strategies shared by the tests of this folder."""

from __future__ import annotations

from hypothesis import strategies as st

from aiokproto.records import BatchRecord, Compression, encode

INT64_MAX = 2**63 - 1

BASE_TIMESTAMP = 1_700_000_000_000

timestamps = st.one_of(
    st.integers(BASE_TIMESTAMP, BASE_TIMESTAMP + 20_000),
    st.integers(BASE_TIMESTAMP - 20_000, BASE_TIMESTAMP + 20_000),
    st.sampled_from([-1, 0, INT64_MAX - 1, INT64_MAX - 8191, 2**62, 2**31]),
    st.integers(-1, INT64_MAX - 1),
)
payloads = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.integers(0, 300).map(lambda size: b"x" * size),
    st.sampled_from([b"", b"y" * 63, b"y" * 64, b"y" * 8191, b"y" * 8192]),
)
headers = st.one_of(
    st.just(()),
    st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4).map(tuple),
)
codecs = st.sampled_from(list(Compression))
base_offsets = st.one_of(st.integers(0, 10_000), st.integers(0, INT64_MAX - 1000), st.just(INT64_MAX - 1000))


@st.composite
def record_lists(draw: st.DrawFn, *, max_size: int = 30) -> tuple[int, list[BatchRecord]]:
    """Draw a base offset and the records that have it and the following ones."""
    base_offset = draw(base_offsets)
    rows = draw(st.lists(st.tuples(timestamps, payloads, payloads, headers), min_size=1, max_size=max_size))
    return base_offset, [BatchRecord(base_offset + index, *row) for index, row in enumerate(rows)]


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Return a batch as a broker stores it."""
    base_offset, records = draw(record_lists(max_size=12))
    return encode(records, base_offset=base_offset, compression=draw(codecs))


def simple_records(count: int, *, size: int = 100, base_offset: int = 0) -> list[BatchRecord]:
    """Return records of one size, eight to a millisecond."""
    return [BatchRecord(base_offset + index, BASE_TIMESTAMP + index // 8, None, b"v" * size) for index in range(count)]
