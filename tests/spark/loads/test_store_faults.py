"""An object store whose responses are lost, wrong or late: every record is loaded once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from itertools import count, product

import pytest

from aiokproto.errors import KafkaError
from aiokproto.spark.loads.commits import CommitUncertainError
from aiokproto.spark.loads.manifest import Manifest
from aiokproto.spark.loads.opening import open_storage
from aiokproto.spark.loads.storage import Storage, StorageError
from aiokproto.spark.loads.vacuum import vacuum
from tests.spark.loads.harness import Log, Outcome, Place, Race, committed, load
from tests.spark.loads.s3 import BUCKET, FakeS3
from tests.spark.loads.test_commits import PAIRS, check, prepare, works_on

pytestmark = pytest.mark.thorough

ON_S3 = Place(lambda: open_storage(f"s3://{BUCKET}/{secrets.token_hex(4)}/out"))
FOR_GOOD = 10_000


def test_a_bucket_is_never_created(s3: FakeS3) -> None:
    with pytest.raises(StorageError, match="s3://misspelt/out: there is no such bucket"):
        open_storage("s3://misspelt/out").check()
    assert not [path for method, path, _ in s3.requests() if method == "PUT" and path.strip("/") == "misspelt"]


def outcome_of(work: Callable[[Storage], Manifest | None], storage: Storage) -> Outcome:
    try:
        return work(storage)
    except KafkaError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the library has exceptions of its own
        return TimeoutError(str(error))


@pytest.mark.parametrize(
    ("kind", "before", "times"),
    [("load", 0, 1), ("load", 0, 3), ("load", 0, FOR_GOOD), ("load", 9, 1), ("rerun", 1, 1), ("rerun", 1, FOR_GOOD)],
)
@pytest.mark.parametrize("how", ["lost", "error", "refused"])
def test_responses_that_fail_from_any_request_on(s3: FakeS3, kind: str, before: int, how: str, times: int) -> None:
    """``lost`` and ``error``: a put that fails after it took effect, which the client repeats by itself, too."""
    for first in count():
        storage, log, work = prepare(ON_S3, kind, before)
        s3.inject(fail={"first": first, "count": times, "how": how})
        outcome = outcome_of(work, storage)
        request_count = len(s3.requests())
        s3.clear_faults()
        if times == 1:
            assert isinstance(outcome, Manifest), f"one failure at request {first} is retried without an error"
        check(storage, log, [outcome])
        if request_count <= first:
            break


def test_a_commit_that_cannot_be_verified_is_uncertain_and_keeps_its_files(s3: FakeS3) -> None:
    storage, log, work = prepare(ON_S3, "load", 1)
    s3.clear_faults()
    work(storage)
    put = [(method, path.rpartition("/")[2]) for method, path, _ in s3.requests()].index(("PUT", "000000000002.json"))
    storage, log, work = prepare(ON_S3, "load", 1)
    s3.inject(fail={"first": put, "count": FOR_GOOD, "how": "error"})
    outcome = outcome_of(work, storage)
    s3.clear_faults()
    assert isinstance(outcome, CommitUncertainError)
    assert "look at runs()" in str(outcome)
    assert committed(storage)[-1].number == 2, "it had taken effect"
    check(storage, log, [outcome])


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_lists_that_are_late_and_removals_that_fail(s3: FakeS3, one: str, other: str) -> None:
    for late, keep in product((False, True), repeat=2):
        storage, log, _ = prepare(ON_S3, "load", 1)
        works = works_on(storage, log)
        s3.inject(late=late, keep=keep)
        # The other commits while the first one writes, whose files have to be removed.
        outcomes = Race(storage, [works[one], works[other]]).run([0] * 6 + [1] * 100)
        vacuum(storage.uri, older_than=timedelta(0), dry_run=keep)
        assert not any(copied for _, _, copied in s3.requests()), "nothing is moved"
        check(storage, log, outcomes)
        s3.clear_faults()
        vacuum(storage.uri, older_than=timedelta(0))
        check(storage, log, [])
        counting = {manifest.data for manifest in committed(storage)}
        assert {folder.name for folder in storage.folders()} == counting


def test_a_list_that_is_late_hides_no_commit(s3: FakeS3) -> None:
    storage, log = ON_S3.new(), Log()
    s3.inject(late=True)
    for end in range(1, 13):
        log.ends = dict.fromkeys(prepare(Place(ON_S3.new), "load", 0)[1].ends, end)
        done = load(storage, log)
        assert done is not None
        assert done.number == end
    check(storage, log, [])
