"""The files of an output: ``run=<id>`` directories with data, and the manifests that make them count."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from aiokproto.spark.manifest import Manifest, ManifestError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

FOLDER = "_aiokproto"
"""Spark does not see names with an underscore in front as data."""

_JSON = ".json"
_LOCAL = "file://"


class Store:
    """An output, on the local file system or where pyarrow can write (``s3://``, ``gs://``, ``abfs://``, ``hdfs://``).

    Attributes:
        uri: Where it is, for Spark. A path without a scheme is a local one, whatever Spark's default file system.
    """

    def __init__(self, out: str | Path) -> None:
        text = str(out)
        # Not Path.as_uri(): Hadoop takes the text as it is, without undoing any escapes.
        self.uri = (text if "://" in text else _LOCAL + str(Path(text).absolute())).rstrip("/")
        self._fs, self._root = _open(self.uri)

    def manifests(self) -> list[Manifest]:
        """What was committed, in order.

        Raises:
            ManifestError: A manifest cannot be read.
        """
        from pyarrow.fs import FileSelector

        files = self._fs.get_file_info(FileSelector(self._path(FOLDER), allow_not_found=True))
        names = [file.base_name for file in files if file.is_file and file.base_name.endswith(_JSON)]
        # Those being written have a dot in front.
        found = [self._read(name) for name in names if not name.startswith(".")]
        return sorted(found, key=lambda manifest: (manifest.number, manifest.run_id))

    def manifest(self, run_id: str) -> Manifest:
        """One of them.

        Raises:
            ManifestError: There is no such run.
        """
        for manifest in self.manifests():
            if manifest.run_id == run_id:
                return manifest
        raise ManifestError(f"no run {run_id!r} was committed in {self.uri}")

    def data_uri(self, data: str) -> str:
        """Where the files of a run are, for Spark."""
        return f"{self.uri}/{data}"

    def commit(self, manifest: Manifest) -> None:
        """Make a run count, or replace one with the same id. A single rename does it: readers see it whole or not."""
        self._fs.create_dir(self._path(FOLDER), recursive=True)
        hidden = self._path(FOLDER, f".{manifest.run_id}{_JSON}")
        with self._fs.open_output_stream(hidden) as stream:
            stream.write(manifest.to_json().encode())
        self._fs.move(hidden, self._path(FOLDER, manifest.run_id + _JSON))

    def discard(self, data: str) -> None:
        """Delete what a failed run has written."""
        from pyarrow.fs import FileType

        if self._fs.get_file_info(self._path(data)).type is FileType.Directory:
            self._fs.delete_dir(self._path(data))

    def _read(self, name: str) -> Manifest:
        with self._fs.open_input_stream(self._path(FOLDER, name)) as stream:
            return Manifest.from_json(stream.read().decode("utf-8", "replace"), name)

    def _path(self, *names: str) -> str:
        return posixpath.join(self._root, *names)


def _open(uri: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem, LocalFileSystem

    if uri.startswith(_LOCAL):
        return LocalFileSystem(), uri.removeprefix(_LOCAL)
    # Hadoop's names for S3 differ from everybody else's.
    for hadoop in ("s3a://", "s3n://"):
        if uri.startswith(hadoop):
            uri = "s3://" + uri.removeprefix(hadoop)
    fs, root = FileSystem.from_uri(uri)
    return fs, root
