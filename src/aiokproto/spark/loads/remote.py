"""Outputs on object stores and other remote file systems, through fsspec."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from aiokproto.spark.loads.storage import PROBE, Folder, StorageError

# Hadoop's scheme names → fsspec's.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfs", "abfss": "abfs"}

_OBJECT_STORES = {"s3", "gs", "gcs", "abfs", "az"}


class RemoteStorage:
    """A bucket, or a directory in one.

    Files are created on the condition that they don't exist: ``If-None-Match`` on S3, a generation of 0 on Google Cloud
    Storage. Nothing is renamed: stores rename by copying and deleting, which isn't atomic.
    """

    def __init__(self, uri: str) -> None:
        if importlib.util.find_spec("fsspec") is None:
            raise StorageError(
                f'{uri} needs fsspec, which is not installed: pip install "aiokproto[s3]", or gcs, or azure'
            )
        from fsspec import get_filesystem_class

        self.uri = uri
        scheme, _, rest = uri.partition("://")
        scheme = _SCHEMES.get(scheme, scheme)
        url = f"{scheme}://{rest}"
        try:
            kind: Any = get_filesystem_class(scheme)
            # Get the arguments from the URL, which may contain more than the path, such as the Azure account of a
            # container. Other processes write, too, so don't cache listings.
            self._fs: Any = kind(**kind._get_kwargs_from_urls(url), use_listings_cache=False)
            self._root: str = kind._strip_protocol(url)
            self._in_bucket = scheme in _OBJECT_STORES
        except (ImportError, ValueError) as error:
            raise StorageError(f"{uri} cannot be opened: {error}") from error
        if not _creates(self._fs):
            raise StorageError(
                f"{uri}: loads cannot be committed here: the fsspec package of this scheme does not create files "
                "exclusively; it checks whether a file exists, and then writes it"
            )

    def check(self) -> None:
        """See :meth:`Storage.check`. Some stores accept the condition, but ignore it."""
        # The probe may not exist the first time, so try twice.
        if self.create(PROBE, b"") and self.create(PROBE, b""):
            raise StorageError(
                f"{self.uri}: loads cannot be committed here: the store overwrites an existing file that must be "
                "created exclusively"
            )

    def read(self, name: str) -> bytes | None:
        """See :meth:`Storage.read`."""
        try:
            return bytes(self._fs.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bool:
        """See :meth:`Storage.create`."""
        try:
            self._put(name, data, "create")
        except FileExistsError:
            return False
        return True

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Storage.write`."""
        self._put(name, data, "overwrite")

    def _put(self, name: str, data: bytes, mode: str) -> None:
        path = self._path(name)
        try:
            self._fs.pipe_file(path, data, mode=mode)
        except FileNotFoundError:
            if self._in_bucket:
                # Don't call makedirs(): object stores don't need directories, and it would create a bucket for a
                # misspelt name.
                raise StorageError(f"{self.uri}: there is no such bucket or container") from None
            self._fs.makedirs(self._fs._parent(path), exist_ok=True)
            self._fs.pipe_file(path, data, mode=mode)

    def settle(self, names: Sequence[str]) -> None:
        """See :meth:`Storage.settle`. There is nothing to do: a store acknowledges a file once it's stored."""

    def folders(self) -> Iterator[Folder]:
        """See :meth:`Storage.folders`."""
        with contextlib.suppress(FileNotFoundError):
            for entry in self._fs.ls(self._root, detail=True):
                name = entry["name"].rstrip("/").rpartition("/")[2]
                if entry["type"] == "directory" and not name.startswith(("_", ".")):
                    yield self._folder(name)

    def remove(self, name: str) -> None:
        """See :meth:`Storage.remove`."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._path(name), recursive=True)

    def _folder(self, name: str) -> Folder:
        files = self._fs.find(self._path(name), detail=True).values()
        times = [_modified(file) for file in files]
        known = [time for time in times if time is not None]
        modified = max(known) if known and len(known) == len(times) else None
        return Folder(name, modified, sum(file.get("size") or 0 for file in files))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _creates(fs: Any) -> bool:
    """Return whether a file system's package has its own ``pipe_file``. With fsspec's default two calls can both
    succeed."""
    from fsspec import AbstractFileSystem

    own = getattr(type(fs), "_pipe_file" if fs.async_impl else "pipe_file", None)
    return own is not None and own is not AbstractFileSystem.pipe_file


def _modified(file: dict[str, Any]) -> datetime | None:
    """Return the modification time of a file. Its key differs between file systems."""
    for key in ("LastModified", "last_modified", "updated", "mtime", "created"):
        found = file.get(key)
        if isinstance(found, str):
            found = datetime.fromisoformat(found.replace("Z", "+00:00"))
        if isinstance(found, int | float):
            found = datetime.fromtimestamp(found, timezone.utc)
        if isinstance(found, datetime):
            return found.astimezone(timezone.utc)
    return None
