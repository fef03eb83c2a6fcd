"""Loads whose files are divided by the values of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.records import BatchRecord
from aiokproto.spark import load, read, rerun, runs, vacuum
from aiokproto.spark.loads.job import parse_partition_by
from tests.spark.loads.output import Output, numbered

if TYPE_CHECKING:
    from aiokproto.spark import LoadResult

DAY = 86_400_000


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, {}),
        ("day", {"day": ""}),
        (["day", "topic"], {"day": "", "topic": ""}),
        ({"day": "to_date(timestamp)"}, {"day": "to_date(timestamp)"}),
    ],
)
def test_columns_are_named_or_computed(given: Any, found: dict[str, str]) -> None:
    assert parse_partition_by(given) == found


@pytest.mark.parametrize("given", ["", ["day", "day"], {"": "x"}, {"day": 1}, [1]])
def test_what_names_no_column_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="partition_by"):
        parse_partition_by(given)


def loaded(output: Output, partition_by: Any, **options: str) -> LoadResult:
    return load(
        output.spark,
        output.topic,
        output.path,
        bootstrap_servers=output.kafka.bootstrap_servers,
        options=options,
        partition_by=partition_by,
    )


@pytest.mark.spark
def test_files_are_divided_and_the_output_has_each_row_once(output: Output) -> None:
    days = [BatchRecord(5 + number, number % 3 * DAY, None, b'{"kind":"a/b %3A"}') for number in range(6)]
    output.kafka.produce(output.topic, 1, days)
    json = {"value.format": "json", "value.schema": "kind STRING"}
    partition_by = {"day": "to_date(timestamp)", "kind": "coalesce(value.kind, 'none')"}
    result = loaded(output, partition_by, **json)
    assert result.rows == 21
    (manifest,) = runs(output.path)
    folders = {name.rpartition("/")[0] for name in manifest.files}
    assert {folder.partition("/")[0] for folder in folders} == {f"by_day=1970-01-0{number}" for number in (1, 2, 3)}
    assert all((output.path / path).is_file() for path in manifest.paths)

    rows = read(output.spark, output.path)
    assert rows.columns[-2:] == ["day", "kind"]
    assert rows.where("day = date'1970-01-02'").count() == 2
    assert {row["kind"] for row in rows.select("kind").distinct().collect()} == {"none", "a/b %3A"}
    before = sorted(map(str, rows.collect()))
    again = rerun(
        output.spark,
        output.path,
        result.run_id or "",
        bootstrap_servers=output.kafka.bootstrap_servers,
        options=json,
        partition_by=partition_by,
    )
    assert again.rows == 21
    assert sorted(map(str, read(output.spark, output.path).collect())) == before

    # Loads with and without directories are read together.
    output.kafka.produce(output.topic, 1, numbered(2, 11))
    loaded(output, None, **json)
    assert read(output.spark, output.path).count() == 23
    assert [folder.name for folder in vacuum(output.path, dry_run=True)] == []


@pytest.mark.spark
def test_columns_that_are_not_there(output: Output) -> None:
    with pytest.raises(ConfigurationError, match="partition_by: the rows have no column day; they have key, value"):
        loaded(output, "day")
    with pytest.raises(ConfigurationError, match="partition_by='day': the rows have a column by_day already"):
        loaded(output, {"day": "1", "by_day": "2"})
    assert not [*output.path.glob("run=*")]
