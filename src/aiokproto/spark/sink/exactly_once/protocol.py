"""The records of the state topic, the names of transactional ids, and what follows from a batch's outcomes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, NamedTuple

from aiokproto.errors import KafkaError
from aiokproto.producer.handed_over import HandedOver
from aiokproto.producer.producer_id import ProducerId

FORMAT = 1
"""The version of the values in the state topic."""

MAX_RUNS = 1000
"""The maximum number of queries and jobs that a prefix remembers. The ones with the newest batches stay."""

ID_LENGTH = 16
"""The length of a task's id, in hexadecimal digits."""


class TransactionLossError(KafkaError):
    """Transactions of a batch that was decided were aborted, or the coordinator doesn't know them."""


class StateError(KafkaError):
    """The state topic isn't usable, or has a record that this version can't read."""


def driver_id(prefix: str) -> str:
    """Return the transactional id of the driver."""
    return f"{prefix}-driver"


def task_id(prefix: str, name: str) -> str:
    """Return the transactional id of a task."""
    return f"{prefix}-{name}"


def is_task_id(prefix: str, transactional_id: str) -> bool:
    """Return whether this is the id of a task with exactly this prefix, and not with a longer one."""
    pattern = rf"{re.escape(prefix)}-[0-9a-f]{{{ID_LENGTH}}}"
    return re.fullmatch(pattern, transactional_id) is not None


class FreeId(NamedTuple):
    """A task's id that no attempt uses.

    Attributes:
        name: Its name: the transactional id without the prefix.
        producer_id: Its producer id.
        epoch: Its epoch, until an attempt uses it.
    """

    name: str
    producer_id: int
    epoch: int


@dataclass(frozen=True)
class Batch:
    """The last batch of a query or job.

    Attributes:
        run: The id of the query or job.
        number: Its number; -1 before the first.
        done: Whether all its transactions are committed; otherwise they still have to be.
        transactions: The transactions of an intent.
        offsets: A digest that identifies its records, from :func:`aiokproto.spark.sink.checkpoint.last_offsets`; None
            if unknown.
    """

    run: str
    number: int
    done: bool = False
    transactions: tuple[HandedOver, ...] = ()
    offsets: str | None = None

    def finished(self) -> Batch:
        """Return the batch as it is once its transactions are committed."""
        return replace(self, done=True, transactions=())

    def taken_back(self) -> Batch:
        """Return the previous batch, which is the last one that is done."""
        return Batch(self.run, self.number - 1, done=True)


@dataclass(frozen=True)
class State:
    """What the state topic records about a prefix.

    Attributes:
        batches: The last batch of each query or job, the newest one last.
        free: The ids of tasks that no attempt uses.
    """

    batches: Mapping[str, Batch] = field(default_factory=dict)
    free: tuple[FreeId, ...] = ()

    @property
    def intents(self) -> list[Batch]:
        """The batches that were decided, but aren't done."""
        return [batch for batch in self.batches.values() if not batch.done]

    def kept(self) -> State:
        """Return the state without the oldest queries and jobs, if there are too many."""
        if len(self.batches) <= MAX_RUNS:
            return self
        newest = set(list(self.batches)[-MAX_RUNS:])
        return State({run: batch for run, batch in self.batches.items() if run in newest or not batch.done}, self.free)

    def done(self) -> dict[str, int]:
        """Return the number of the last batch that is done, by query or job."""
        return {run: batch.number if batch.done else batch.number - 1 for run, batch in self.batches.items()}

    def offsets(self) -> dict[str, str]:
        """Return the digest of the offsets of the last batch that is done, by query, if it's known."""
        found = {run: batch.offsets for run, batch in self.batches.items() if batch.done}
        return {run: offsets for run, offsets in found.items() if offsets is not None}


@dataclass(frozen=True)
class Plan:
    """What the driver gives to the tasks of a batch.

    Attributes:
        prefix: The prefix of the transactional ids.
        token: The driver's producer id and epoch; the commit continues with them.
        free: The free ids, for first attempts, in the order of partitions.
        done: The number of the last batch that is done, by query or job.
        two_phase: Whether transactions have no timeout (KIP-939).
        offsets: The digest of the offsets of that batch, by query, if it's known.
    """

    prefix: str
    token: ProducerId
    free: tuple[FreeId, ...]
    done: Mapping[str, int]
    two_phase: bool
    offsets: Mapping[str, str] = field(default_factory=dict)

    def is_done(self, run: str, number: int, offsets: str | None = None) -> bool:
        """Return whether a batch is committed already, so that its tasks must write nothing.

        Args:
            run: The query or job.
            number: The number of the batch.
            offsets: The digest of its offsets; None if unknown.

        Raises:
            StateError: A later batch is committed, or one with this number but different records. The latter happens if
                a checkpoint lacks only the last batch: Spark plans another batch with the same number, and the records
                that are there now.
        """
        done = self.done.get(run, -1)
        if number > done:
            return False
        known = self.offsets.get(run)
        if number == done and (known is None or offsets in (None, known)):
            return True
        found = f"batch {done} is committed" if number < done else "is committed with other offsets"
        raise StateError(
            f"batch {number} of {run} is to be written under transactionalIdPrefix={self.prefix}, and {found}: "
            "the checkpoint (or jobVersion) is older than what was written, as one from a backup or "
            "a copy. Use the newest one; or another transactionalIdPrefix, which writes again what this one lacks"
        )


# -- the records


Record = tuple[bytes, bytes | None]
"""Key and value. A value of None removes the key."""


def batch_record(prefix: str, batch: Batch) -> Record:
    """Return the record of a query's or job's last batch."""
    transactions = [
        [transaction.transactional_id.removeprefix(f"{prefix}-"), *transaction[1:]]
        for transaction in batch.transactions
    ]
    value = {"version": FORMAT, "batch": batch.number, "done": batch.done, "transactions": transactions}
    return _json({"prefix": prefix, "run": batch.run}), _json({**value, "offsets": batch.offsets})


def no_batch_record(prefix: str, run: str) -> Record:
    """Return the record that forgets a query or job."""
    return _json({"prefix": prefix, "run": run}), None


def free_record(prefix: str, free: Sequence[FreeId]) -> Record:
    """Return the record of the free ids."""
    return _json({"prefix": prefix}), _json({"version": FORMAT, "free": list(free)})


def snapshot_record(prefix: str, state: State) -> Record:
    """Return the record of a whole state without intents, which replaces all records before it."""
    offsets = state.offsets()
    done = [(run, number, offsets.get(run)) for run, number in state.done().items()]
    value = {"version": FORMAT, "done": done, "free": list(state.free)}
    return _json({"prefix": prefix, "snapshot": True}), _json(value)


class StateReader:
    """Computes the state of a prefix from the records of the state topic, in order. The last record of a key counts.

    Attributes:
        has_snapshot: Whether one of the records is a snapshot of the whole state.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._batches: dict[str, Batch] = {}
        self._free: tuple[FreeId, ...] = ()
        # Records that can't be read, by key, until someone removes them.
        self._damaged: dict[bytes, StateError] = {}
        self.has_snapshot = False

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Read a record."""
        if key is None:
            return
        self._damaged.pop(key, None)
        try:
            self._add(key, value)
        except StateError as error:
            # If the value is None, the record was removed, and its key doesn't matter.
            if value is not None:
                self._damaged[key] = error

    def _add(self, key: bytes, value: bytes | None) -> None:
        name = _object(key)
        if name.get("prefix") != self._prefix:
            return
        run = name.get("run")
        # Drop the older record of the key, even if this one can't be read.
        if run is not None:
            self._batches.pop(run, None)
        if value is None:
            return
        found = _object(value)
        if found.get("version") != FORMAT:
            raise StateError(
                f"the state of {self._prefix!r} has version {found.get('version')!r}, and this release reads {FORMAT}: "
                "it was written by a later release of aiokproto"
            )
        try:
            if run is not None:
                self._batches[run] = _batch(self._prefix, run, found)
                return
            if "snapshot" in name:
                done = ((str(run), int(number), _offsets(offsets)) for run, number, offsets in found["done"])
                self._batches = {run: Batch(run, number, done=True, offsets=offsets) for run, number, offsets in done}
                self.has_snapshot = True
            self._free = _free_ids(found["free"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"a record of the state topic is damaged: key {key!r}, value {value!r}") from error

    def state(self) -> State:
        """Return the state.

        Raises:
            StateError: A record wasn't written by this sink.
        """
        for error in self._damaged.values():
            raise error
        return State(dict(self._batches), self._free)


def _free_ids(found: Iterable[Sequence[Any]]) -> tuple[FreeId, ...]:
    return tuple(FreeId(str(name), int(id_), int(epoch)) for name, id_, epoch in found)


def _batch(prefix: str, run: str, found: Mapping[str, Any]) -> Batch:
    transactions = []
    for name, producer_id, epoch, v2 in found["transactions"]:
        transactions.append(HandedOver(task_id(prefix, name), int(producer_id), int(epoch), bool(v2)))
    return Batch(run, int(found["batch"]), bool(found["done"]), tuple(transactions), _offsets(found["offsets"]))


def _offsets(found: object) -> str | None:
    return None if found is None else str(found)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise StateError(f"the state topic has a record that is not of this sink: {data[:100]!r}") from error
    if not isinstance(found, dict):
        raise StateError(f"the state topic has a record that is not of this sink: {data[:100]!r}")
    return found


# -- outcomes


class Outcome(Enum):
    """What became of a transaction that had to be committed."""

    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()
    """The coordinator has forgotten the transaction, or another producer has used its id."""


class Ended(NamedTuple):
    """What became of a transaction.

    Attributes:
        outcome: Whether it is committed.
        producer: The producer id and epoch that its id has now; None if unknown.
    """

    outcome: Outcome
    producer: ProducerId | None = None


class OnLoss(Enum):
    """What to do about a batch if some of its transactions are committed and others are lost."""

    FAIL = "fail"
    REWRITE = "rewrite"
    """Take the intent back. Spark writes the batch again, so the rows that were committed appear twice."""
    SKIP = "skip"
    """Continue. The rows of the lost transactions are missing."""


def resolve(batch: Batch, outcomes: Sequence[Outcome], on_loss: OnLoss) -> Batch:
    """Return what becomes of a batch with an intent.

    Raises:
        TransactionLossError: Some transactions are lost, others aren't, and the options don't say what to do.
    """
    ended = zip(batch.transactions, outcomes, strict=True)
    lost = [transaction for transaction, outcome in ended if outcome is not Outcome.COMMITTED]
    if not lost:
        return batch.finished()
    # If all are aborted, no row is or will be visible. An unknown transaction may have been committed long ago.
    if all(outcome is Outcome.ABORTED for outcome in outcomes) or on_loss is OnLoss.REWRITE:
        return batch.taken_back()
    if on_loss is OnLoss.SKIP:
        return batch.finished()
    unknown = outcomes.count(Outcome.UNKNOWN)
    raise TransactionLossError(
        f"batch {batch.number} of {batch.run} was decided, but not all of it could be committed: of "
        f"{len(batch.transactions)} transactions {outcomes.count(Outcome.COMMITTED)} are committed, "
        f"{outcomes.count(Outcome.ABORTED)} were aborted by their timeout, and {unknown} are not known to the "
        f"coordinators (the first one: {lost[0].transactional_id}). Set onTransactionLoss=rewrite to write the batch "
        "again, with the committed rows twice, or onTransactionLoss=skip to go on without the lost rows"
    )
