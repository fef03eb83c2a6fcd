"""Each kind of storage has the guarantees that commits depend on."""

from __future__ import annotations

import errno
import re
import secrets
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.opening import open_storage
from aiokproto.spark.loads.storage import PROBE, Storage, StorageError


@pytest.fixture(params=["local", "memory"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "local":
        yield open_storage(tmp_path / "with space%20")
    else:
        yield open_storage(f"memory://{secrets.token_hex(4)}/out")


def test_files_are_created_once(there: Storage) -> None:
    assert there.read("_a/b.json") is None
    assert there.create("_a/b.json", b"one")
    assert not there.create("_a/b.json", b"two")
    assert there.read("_a/b.json") == b"one"


def test_exclusive_creation_is_detected(there: Storage) -> None:
    for _ in range(2):
        there.check()
    assert not there.create(PROBE, b"")


def test_a_store_that_does_not_look_at_the_condition_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    conditional = MemoryFileSystem.pipe_file

    def pipe_file(self: MemoryFileSystem, path: str, value: bytes, mode: str = "overwrite") -> None:
        conditional(self, path, value, mode="overwrite")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", pipe_file)
    with pytest.raises(StorageError, match="overwrites an existing file that must be created exclusively"):
        open_storage(f"memory://{secrets.token_hex(4)}/out").check()


def test_a_local_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr("os.link", link)
    with pytest.raises(StorageError, match="no links here"):
        open_storage(tmp_path).check()


def test_files_are_replaced_whole(there: Storage) -> None:
    there.write("_a/b.json", b"one")
    there.write("_a/b.json", b"two")
    assert there.read("_a/b.json") == b"two"
    assert not there.create("_a/b.json", b"three")


def test_only_one_of_many_concurrent_creations_succeeds(there: Storage) -> None:
    created: list[bytes] = []
    begin = threading.Barrier(8)

    def create(data: bytes) -> None:
        begin.wait()
        if there.create("_a/b.json", data):
            created.append(data)

    threads = [threading.Thread(target=create, args=(b"%d" % number * 1000,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [there.read("_a/b.json")] == created


def test_directories_are_listed_and_removed(there: Storage) -> None:
    assert list(there.folders()) == []
    there.write("_a/b.json", b"x")
    there.write("run=1/part-0", b"xyz")
    there.write("run=1/deep/part-1", b"z")
    there.write("run=2/part-0", b"")
    found = {folder.name: folder for folder in there.folders()}
    assert found.keys() == {"run=1", "run=2"}
    assert found["run=1"].size == 4
    modified = found["run=1"].modified
    assert modified is not None
    assert abs(modified - datetime.now(timezone.utc)) < timedelta(days=1)
    there.remove("run=1")
    there.remove("run=1")
    assert [folder.name for folder in there.folders()] == ["run=2"]


def test_a_local_file_that_is_being_written_leaves_nothing_behind(tmp_path: Path) -> None:
    there = open_storage(tmp_path)
    there.create("_a/b.json", b"one")
    there.create("_a/b.json", b"two")
    there.write("_a/c.json", b"three")
    assert sorted(path.name for path in (tmp_path / "_a").iterdir()) == ["b.json", "c.json"]


def test_a_path_is_local_with_any_file_system_of_spark(tmp_path: Path) -> None:
    assert open_storage(str(tmp_path)).uri == f"file://{tmp_path}"
    assert open_storage(f"file://{tmp_path}/").uri == f"file://{tmp_path}"


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (Path("s3://bucket/out"), "write it as a string"),
        ("s3:/bucket/out", "write it as a string"),
        ("file:/tmp/out", "write it as a string"),
        ("file://localhost/out", "three slashes"),
        ("s3://bucket/a//out", "'//'"),
        ("s3://bucket/a/../out", "'..'"),
        ("/tmp/out[1]", "pattern"),
        ("s3://bucket/*", "pattern"),
        ("", "a path or a URI"),
        ("~/out", "without ~"),
        (None, "got NoneType"),
        (3, "got int"),
        (b"/tmp/out", "got bytes"),
    ],
)
def test_paths_that_spark_would_interpret_are_refused(out: object, text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        open_storage(out)  # type: ignore[arg-type]


def test_schemes_are_the_same_in_any_case(tmp_path: Path) -> None:
    assert open_storage(f"FILE://{tmp_path}").uri == f"file://{tmp_path}"


def test_a_package_that_looks_and_then_writes_is_refused() -> None:
    class Overtaken(LocalFileSystem):  # type: ignore[misc]
        pipe_file = AbstractFileSystem.pipe_file

    fsspec.register_implementation("overtaken", Overtaken)
    with pytest.raises(StorageError, match="checks whether a file exists, and then writes it"):
        open_storage("overtaken:///tmp/out")


def test_a_url_can_have_parameters(tmp_path: Path) -> None:
    class WithAccount(LocalFileSystem):  # type: ignore[misc]
        """As Azure's: ``account://container@account/path``."""

        protocol = "account"
        asynchronous = False

        def __init__(self, account: str, **options: Any) -> None:
            super().__init__(**options)
            self.account = account

        @staticmethod
        def _get_kwargs_from_urls(path: str) -> dict[str, str]:
            return {"account": path.partition("@")[2].partition("/")[0]}

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return f"{tmp_path}/{path.partition('@')[2]}" if "@" in path else path

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(value)

    fsspec.register_implementation("account", WithAccount)
    there = open_storage("account://container@mine/out")
    there.write("file", b"content")
    assert (tmp_path / "mine" / "out" / "file").read_bytes() == b"content"
    assert there.read("file") == b"content"


@pytest.mark.parametrize("uri", ["nosuch://bucket/out", "hdfs://host/out"])
def test_the_error_for_unreachable_storage_has_the_cause(uri: str) -> None:
    with pytest.raises(StorageError, match=uri):
        open_storage(uri)
