"""Loads without Spark and without Kafka, step by step: each call of the storage is a step.

Several loads take steps in any order that a test
chooses, are killed between any two, and have their calls fail before or
after they took effect. What is committed in the end is compared with what the log has.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from aiokproto.spark.loads.attempt import Counted, Written, new_directory, run_attempt
from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.history import History
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest
from aiokproto.spark.loads.storage import PROBE, Folder, Storage
from aiokproto.types import TopicPartition
from tests.timeouts import LONG_TIMEOUT

Row = tuple[TopicPartition, int]


class KilledError(BaseException):
    """The process was killed: no further call has an effect."""


class MemoryStorage:
    """Files in memory, each call as one step that nothing comes between."""

    uri = "memory://output"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def check(self) -> None:
        self.create(PROBE, b"")

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def create(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(name, data) is data

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def settle(self, names: Sequence[str]) -> None:
        assert all(name in self.files for name in names)

    def folders(self) -> Iterator[Folder]:
        names = {name.partition("/")[0] for name in self.files if not name.startswith("_")}
        yield from (Folder(name, None, 0) for name in sorted(names))

    def remove(self, name: str) -> None:
        for file in [file for file in self.files if file.startswith(f"{name}/")]:
            del self.files[file]


@dataclass(frozen=True)
class Place:
    """Where outputs are made.

    Attributes:
        new: Makes an empty one.
        stride: One of so many orders of steps is tried, because real storages are slow.
    """

    new: Callable[[], Storage]
    stride: int = 1

    def output(self, like: MemoryStorage) -> Storage:
        """One with the same files."""
        made = self.new()
        for name, data in like.files.items():
            made.write(name, data)
        return made


Fault = Callable[[int, str, str], str | None]
"""Step, call, file → ``"before"``: it fails; ``"after"``: it takes effect and fails; ``"kill"``; None: it works."""


class Steps:
    """The storage as one process sees it: each call waits for its turn, and may fail."""

    def __init__(self, storage: Storage, turn: Callable[[], None], fault: Fault) -> None:
        self.uri = storage.uri
        self.calls: list[tuple[str, str]] = []
        self._storage = storage
        self._turn = turn
        self._fault = fault
        self._killed = False

    def _step(self, call: str, name: str, work: Callable[[], object]) -> object:
        self._turn()
        if self._killed:
            raise KilledError
        step = len(self.calls)
        self.calls.append((call, name))
        fault = self._fault(step, call, name)
        if fault == "kill":
            self._killed = True
            raise KilledError
        if fault == "before":
            raise TimeoutError(f"{call} {name}: no answer")
        done = work()
        if fault == "after":
            raise TimeoutError(f"{call} {name}: the answer was lost")
        return done

    def check(self) -> None:
        self._step("check", "", self._storage.check)

    def read(self, name: str) -> bytes | None:
        return self._step("read", name, lambda: self._storage.read(name))  # type: ignore[return-value]

    def create(self, name: str, data: bytes) -> bool:
        return bool(self._step("create", name, lambda: self._storage.create(name, data)))

    def write(self, name: str, data: bytes) -> None:
        self._step("write", name, lambda: self._storage.write(name, data))

    def settle(self, names: Sequence[str]) -> None:
        self._step("settle", "", lambda: self._storage.settle(names))

    def folders(self) -> Iterator[Folder]:
        found: list[Folder] = []
        self._step("folders", "", lambda: found.extend(self._storage.folders()))
        return iter(found)

    def remove(self, name: str) -> None:
        self._step("remove", name, lambda: self._storage.remove(name))


def no_fault(step: int, call: str, name: str) -> None:
    return None


@dataclass
class Log:
    """The log: the number of records of each partition, and its id."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)


def load(storage: Storage, log: Log) -> Manifest | None:
    """Load new records; None if there are none."""
    history = CommitLog(storage).latest()
    partitions = tuple(_new(one, end, history) for one, end in sorted(log.ends.items()))
    if not any(one.end > one.start for one in partitions):
        return None
    data, token = new_directory(datetime(2026, 1, 1, tzinfo=timezone.utc))
    manifest = Manifest(0, f"-{token}", 1, None, "cluster", data, (), "", False, False, 0, partitions)
    return _carried_out(storage, history, manifest)


def rerun(storage: Storage, run_id: str) -> Manifest:
    """Load the records of a run again."""
    commits = CommitLog(storage)
    history = commits.latest()
    before = commits.manifest(history.current_number(run_id))
    data, _ = new_directory(datetime(2026, 1, 1, tzinfo=timezone.utc))
    manifest = replace(
        before, attempt=before.attempt + 1, replaces=before.number, data=data, replaced_columns=before.columns
    )
    return _carried_out(storage, history, manifest)


def _new(partition: TopicPartition, end: int, history: History) -> LoadedPartition:
    known = history.positions.get(partition)
    start = known.offset if known else 0
    return LoadedPartition(partition.topic, "id", partition.partition, start, end, 0, after=known)


def _carried_out(storage: Storage, history: History, manifest: Manifest) -> Manifest:
    total = sum(one.end - one.start for one in manifest.partitions)

    def write(data: str) -> Written:
        # One file for each partition, as tasks of their own write them.
        for one in manifest.partitions:
            rows = " ".join(map(str, range(one.start, one.end)))
            storage.write(f"{data}/{one.topic}-{one.partition}", rows.encode())
        return Written(total, total, {})

    def count(data: str) -> Counted:
        files = tuple(f"{one.topic}-{one.partition}" for one in manifest.partitions)
        return Counted(files, tuple(replace(one, rows=one.end - one.start) for one in manifest.partitions))

    return run_attempt(storage, history, manifest, write, count, lambda _: None)


def committed(storage: Storage) -> list[Manifest]:
    """The manifests of committed loads."""
    counting = {manifest.run_id: manifest for manifest in CommitLog(storage).manifests()}
    return list(counting.values())


def rows(storage: Storage) -> Counter[Row]:
    """The rows of all committed loads."""
    found: Counter[Row] = Counter()
    for manifest in committed(storage):
        for path, one in zip(manifest.paths, manifest.partitions, strict=True):
            data = storage.read(path)
            assert data is not None, f"manifest {manifest.number} counts, and its files are gone"
            found.update((one.topic_partition, int(offset)) for offset in data.split())
    return found


def everything(log: Log) -> Counter[Row]:
    return Counter((partition, offset) for partition, end in log.ends.items() for offset in range(end))


Outcome = Manifest | BaseException | None
"""The outcome of a process: the manifest it committed, its error, or None if there was nothing to do."""


class Race:
    """Processes that take one step at a time, in the order that a schedule says; then the rest one by one."""

    def __init__(self, storage: Storage, work: Sequence[Callable[[Storage], Manifest | None]]) -> None:
        self._storage = storage
        self._work = work
        self.outcomes: list[Outcome] = [None] * len(work)
        self.steps: list[Steps] = []

    def run(self, schedule: Sequence[int], faults: Sequence[Fault] = ()) -> list[Outcome]:
        turns = [threading.Semaphore(0) for _ in self._work]
        paused = threading.Semaphore(0)
        ended = [False] * len(self._work)
        order = _order(schedule, ended)

        def process(index: int) -> None:
            began = False

            def turn() -> None:
                nonlocal began
                if not began:
                    began = True
                    paused.release()
                elif (following := next(order)) == index:
                    # Waking another thread takes longer than most steps.
                    return
                else:
                    turns[following].release()
                assert turns[index].acquire(timeout=LONG_TIMEOUT)

            steps = Steps(self._storage, turn, faults[index] if index < len(faults) else no_fault)
            self.steps[index] = steps
            try:
                self.outcomes[index] = self._work[index](steps)
            except BaseException as error:  # noqa: BLE001 - the outcome, of whatever kind
                self.outcomes[index] = error
            ended[index] = True
            following = next(order, None) if began else None
            (paused if following is None else turns[following]).release()

        self.steps = [Steps(self._storage, lambda: None, no_fault)] * len(self._work)
        threads = [threading.Thread(target=process, args=(index,)) for index in range(len(self._work))]
        for thread in threads:
            thread.start()
            assert paused.acquire(timeout=LONG_TIMEOUT)
        # Each process now waits before its first step, or has ended.
        if (first := next(order, None)) is not None:
            turns[first].release()
            assert paused.acquire(timeout=LONG_TIMEOUT)
        for thread in threads:
            thread.join(LONG_TIMEOUT)
        assert all(ended)
        return self.outcomes


def _order(schedule: Iterable[int], ended: Sequence[bool]) -> Iterator[int]:
    """Yield the process that takes the next step."""
    for index in schedule:
        if not ended[index]:
            yield index
    for index in range(len(ended)):
        while not ended[index]:
            yield index
