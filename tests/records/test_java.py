"""Kafka's own code reads what we write, and we read what it writes: every field of every format is the same."""

from __future__ import annotations

import itertools

import pytest

from aiokproto.codec.payloads.control_records import (
    Endpoint,
    EndTxnMarker,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from aiokproto.records import (
    BatchBuilder,
    BatchRecord,
    Compression,
    ControlRecord,
    ControlType,
    LegacyBuilder,
    control_records,
    decode,
    encode,
    encode_control,
)
from aiokproto.records.patch import clear_producer, restamp, set_leader_epoch
from aiokproto.types import TimestampType
from tests.records.java_reader import JavaRecords, client_jars, described, same
from tests.records.strategies import BASE_TIMESTAMP

pytestmark = [pytest.mark.kafka, pytest.mark.java]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONTROL_BATCH = {"timestamp": BASE_TIMESTAMP, "base_offset": 900, "leader_epoch": 6}

VOTERS = {number: LeaderChangeMessageVoter(voter_id=number) for number in (1, 2, 3)}
HEADER = ControlRecord(
    ControlType.SNAPSHOT_HEADER, 0, SnapshotHeaderRecord(version=0, last_contained_log_timestamp=BASE_TIMESTAMP - 1)
)
VERSION = ControlRecord(ControlType.KRAFT_VERSION, 0, KRaftVersionRecord(version=0, kraft_version=1))
VOTER = VotersRecordVoter(
    voter_id=3,
    voter_directory_id=(1).to_bytes(8, "big") + (2).to_bytes(8, "big"),
    endpoints=[Endpoint(name="CONTROLLER", host="controller.example", port=65535)],
    kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
)
ELECTED = LeaderChangeMessage(
    version=0, leader_id=2, voters=list(VOTERS.values()), granting_voters=[VOTERS[2], VOTERS[3]]
)
ALL_VOTERS = ControlRecord(ControlType.KRAFT_VOTERS, 0, VotersRecord(version=0, voters=[VOTER]))
CONTROL = {
    "COMMIT": [ControlRecord(ControlType.COMMIT, 0, EndTxnMarker(coordinator_epoch=42))],
    "ABORT": [ControlRecord(ControlType.ABORT, 0, EndTxnMarker(coordinator_epoch=42))],
    "LEADER_CHANGE": [ControlRecord(ControlType.LEADER_CHANGE, 0, ELECTED)],
    "SNAPSHOT_HEADER": [HEADER],
    "SNAPSHOT_FOOTER": [ControlRecord(ControlType.SNAPSHOT_FOOTER, 0, SnapshotFooterRecord(version=0))],
    "KRAFT_VERSION": [VERSION],
    "KRAFT_VOTERS": [ALL_VOTERS],
    "SNAPSHOT": [HEADER, VERSION, ALL_VOTERS],
}
"""Return what the program writes, by the name of its set; a snapshot starts with the last one."""


@pytest.fixture(scope="module", params=client_jars(), ids=lambda jar: jar.stem)
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> JavaRecords:
    """Return one program for each release of Kafka whose jars are there."""
    return JavaRecords(request.param, tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def written(java: JavaRecords) -> dict[str, tuple[bytes, list[str]]]:
    return java.written()


def test_records_written_by_java_are_read(written: dict[str, tuple[bytes, list[str]]]) -> None:
    javas = {name: lines for name, (_, lines) in written.items()}
    ours = {name: described(data) for name, (data, _) in written.items()}
    assert len(written) > 80
    assert same(written, ours, javas) == {}


def test_java_reads_our_records(java: JavaRecords) -> None:
    sets = {**plain_sets(), **producer_sets()}
    javas = java.read(sets)
    assert all(any(line.startswith("record ") for line in lines) for lines in javas.values())
    assert same(sets, {name: described(data) for name, data in sets.items()}, javas) == {}


def test_columns_of_records_written_by_java(written: dict[str, tuple[bytes, list[str]]]) -> None:
    """All formats in one set of columns have the offsets, timestamps, keys, values and headers of the iteration."""
    columns = pytest.importorskip("aiokproto.records.columns")
    batches = [batch for data, _ in written.values() for batch in decode(data)]
    table = columns.to_columns(batches)
    expected = [record for batch in batches for record in batch]
    assert {batch.magic for batch in batches} == {0, 1, 2}
    assert table.offset.tolist() == [record.offset for record in expected]
    assert table.timestamp.tolist() == [record.timestamp for record in expected]
    assert table.timestamp_type.tolist() == [int(batch.timestamp_type) for batch in batches for _ in batch]
    assert [table.key[row] for row in range(len(table))] == [record.key for record in expected]
    assert [table.value[row] for row in range(len(table))] == [record.value for record in expected]
    assert table.headers() == [record.headers for record in expected]


def test_control_records_of_java(written: dict[str, tuple[bytes, list[str]]]) -> None:
    """Each has the content that it was made from, and is byte for byte what we write from the same content."""
    for name, records in CONTROL.items():
        data, _ = written[f"control-{name}"]
        (batch,) = decode(data)
        assert control_records(batch) == records
        assert encode_control(*records, **CONTROL_BATCH, **producer_of(records)) == data


def test_control_records_that_java_reads(java: JavaRecords) -> None:
    """Every value is compared by the classes with which Java itself reads control records."""
    sets = {
        name: bytes(encode_control(*records, **CONTROL_BATCH, **producer_of(records)))
        for name, records in CONTROL.items()
    }
    javas = java.read(sets)
    said = {name: [line for line in lines if line.startswith("control ")] for name, lines in javas.items()}
    assert {name: len(lines) for name, lines in said.items()} == {name: len(one) for name, one in CONTROL.items()}
    assert same(sets, {name: described(data) for name, data in sets.items()}, javas) == {}


def test_batches_with_a_delete_horizon(java: JavaRecords, written: dict[str, tuple[bytes, list[str]]]) -> None:
    """Timestamps are kept, relative to the horizon; without compression, the bytes equal Java's."""
    horizon = BASE_TIMESTAMP + 86_400_000
    sets: dict[str, bytes] = {}
    for codec in CODECS:
        builder = BatchBuilder(
            compression=Compression.parse(codec),
            producer_id=77,
            producer_epoch=3,
            base_sequence=10,
            is_transactional=True,
            delete_horizon=horizon,
        )
        builder.append(horizon, b"at the horizon", None)
        builder.append(BASE_TIMESTAMP, b"before", None)
        builder.append(BASE_TIMESTAMP + 90_000_000, b"after", b"value")
        batch = builder.close(base_offset=5)
        set_leader_epoch(batch, 0, 2)
        sets[f"delete-horizon-together-{codec}"] = bytes(batch)
    plain = "delete-horizon-together-none"
    assert sets[plain] == written[plain][0]
    javas = java.read(sets)
    assert all(f"horizon={horizon} " in lines[0] for lines in javas.values())
    assert same(sets, {name: described(data) for name, data in sets.items()}, javas) == {}
    # The size depends on a codec's own library.
    assert {name: lines[1:] for name, lines in javas.items()} == {name: written[name][1][1:] for name in sets}


def test_batches_whose_origin_is_forgotten(java: JavaRecords, written: dict[str, tuple[bytes, list[str]]]) -> None:
    """For all that Java writes: Java reads the same records as before, and nothing else is left."""
    sets: dict[str, bytes] = {}
    for name, (data, _) in written.items():
        first, *others = decode(data)
        own_times = first.timestamp_type is TimestampType.CREATE_TIME
        if first.magic == 2 and not others and not first.is_control and own_times:
            changed = bytearray(data)
            clear_producer(changed, 0)
            sets[name] = bytes(changed)
    javas = java.read(sets)
    assert any("horizon" in name for name in sets)
    assert same(sets, {name: described(data) for name, data in sets.items()}, javas) == {}
    assert all("producer=-1/-1/-1/-1 txn=false control=false epoch=-1 horizon=none" in javas[name][0] for name in sets)
    contents = {name: [line.split(" ", 2)[2] for line in lines[1:]] for name, lines in javas.items()}
    assert contents == {name: [line.split(" ", 2)[2] for line in written[name][1][1:]] for name in sets}


def producer_of(records: list[ControlRecord]) -> dict[str, int]:
    return {"producer_id": 123, "producer_epoch": 4} if records[0].type < ControlType.LEADER_CHANGE else {}


def plain_sets() -> dict[str, bytes]:
    """Return every format, codec and kind of timestamp."""
    sets: dict[str, bytes] = {}
    for magic, codec in itertools.product((0, 1, 2), CODECS):
        if magic < 2 and codec == "zstd":
            continue
        for kind, records in (("few", few(magic)), ("many", many())):
            name = f"magic-{magic}-{codec}-{kind}"
            sets[name] = encode(records, magic=magic, compression=codec, base_offset=500)
            if magic == 2:
                changed = bytearray(sets[name])
                restamp(changed, 0, BASE_TIMESTAMP + 77)
                set_leader_epoch(changed, 0, 12)
                sets[f"{name}-appended"] = bytes(changed)
            elif magic == 1:
                sets[f"{name}-appended"] = appended(records, Compression.parse(codec))
    return sets


def producer_sets() -> dict[str, bytes]:
    return {
        f"producer-{codec}-{transactional}": encode(
            many(),
            compression=codec,
            producer_id=2**40,
            producer_epoch=7,
            base_sequence=2**31 - 3,
            is_transactional=transactional,
        )
        for codec, transactional in itertools.product(CODECS, (False, True))
    }


def appended(records: list[BatchRecord], codec: Compression) -> bytes:
    builder = LegacyBuilder(1, compression=codec, log_append_time=BASE_TIMESTAMP + 77)
    for record in records:
        builder.append(record.timestamp, record.key, record.value)
    return bytes(builder.close(base_offset=500))


def few(magic: int) -> list[BatchRecord]:
    headers = (("h", b"x"), ("h", None), ("é😀", b"")) if magic == 2 else ()
    return [
        BatchRecord(0, BASE_TIMESTAMP, b"key", b"value", headers),
        BatchRecord(1, BASE_TIMESTAMP - 5, None, b"no key"),
        BatchRecord(2, BASE_TIMESTAMP + 10_000, b"no value", None),
        BatchRecord(3, BASE_TIMESTAMP, None, None),
        BatchRecord(4, BASE_TIMESTAMP, b"", b""),
    ]


def many() -> list[BatchRecord]:
    """The data is larger than a block of any codec."""
    return [
        BatchRecord(index, BASE_TIMESTAMP + index, b"key%d" % index, bytes([index % 251]) * (index * 3))
        for index in range(300)
    ]
