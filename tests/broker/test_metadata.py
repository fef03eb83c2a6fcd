"""A cluster's metadata file: values survive a restart, even if the last line is truncated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.metadata.metadata_log import FILE, MetadataLog
from aiokproto.errors import ConfigurationError

NAMES = st.sampled_from("abc")
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.dictionaries(st.text(max_size=2), st.booleans()))
PUTS = st.lists(st.tuples(st.sampled_from(["topic", "user"]), NAMES, VALUES), max_size=30)


@given(PUTS, st.integers(0, 40))
def test_stored_values_survive_a_restart(
    tmp_path_factory: pytest.TempPathFactory, puts: list[tuple[str, str, object]], cut: int
) -> None:
    root = tmp_path_factory.mktemp("data")
    metadata = MetadataLog(root)
    model: dict[str, dict[str, object]] = {"topic": {}, "user": {}}
    for number, (kind, name, value) in enumerate(puts):
        metadata.put(kind, name, value)
        model[kind].pop(name, None) if value is None else model[kind].__setitem__(name, value)
        if number % 7 == 3:
            with (root / FILE).open("a") as file:
                file.write(json.dumps(["topic", "a", "never answered"])[:cut])
            metadata = MetadataLog(root)
        assert {kind: dict(metadata.get(kind)) for kind in model} == model
    assert {kind: dict(MetadataLog(root).get(kind)) for kind in model} == model


def test_the_file_is_compacted(tmp_path: Path) -> None:
    metadata = MetadataLog(tmp_path)
    for number in range(5000):
        metadata.put("topic", f"t{number % 10}", number)
    assert len((tmp_path / FILE).read_text().splitlines()) < 1100
    assert MetadataLog(tmp_path).get("topic") == {f"t{number}": 4990 + number for number in range(10)}


def test_a_stored_value_is_a_copy(tmp_path: Path) -> None:
    metadata, value = MetadataLog(tmp_path), {"replicas": [1]}
    metadata.put("topic", "t", value)
    value["replicas"].append(2)
    metadata.put("topic", "t", value)
    assert MetadataLog(tmp_path).get("topic") == {"t": {"replicas": [1, 2]}}


@pytest.mark.parametrize("content", ["", "{}\n", '["version", "", 3]\n', '["version", "", 2]\nnonsense\n'])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        MetadataLog(tmp_path)


def test_the_data_of_an_older_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="older release"):
        MetadataLog(tmp_path)
