"""Outputs on a local file system."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from aiokproto.spark.loads.storage import LOCAL, PROBE, Folder, StorageError


class LocalStorage:
    """A directory. What was created is on the disk before :meth:`create` returns."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        # Not a URL's path: Hadoop takes the text as it is, without undoing any escapes.
        self._root = Path(uri.removeprefix(LOCAL))

    def check(self) -> None:
        """See :meth:`Storage.check`. Some file systems have no links."""
        try:
            self.create(PROBE, b"")
        except OSError as error:
            raise StorageError(f"{self.uri}: a file cannot be created exclusively here: {error}") from error

    def read(self, name: str) -> bytes | None:
        """See :meth:`Storage.read`."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bool:
        """See :meth:`Storage.create`. A link makes the name: it comes with the whole file, or not if there is one."""
        path = self._root / name
        with self._written(path, data) as hidden:
            try:
                os.link(hidden, path)
            except FileExistsError:
                return False
        _sync(path.parent)
        return True

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Storage.write`."""
        path = self._root / name
        with self._written(path, data) as hidden:
            hidden.replace(path)

    @contextlib.contextmanager
    def _written(self, path: Path, data: bytes) -> Iterator[Path]:
        """The data in a file that nobody looks at, next to where it is to be; gone in the end."""
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with hidden.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield hidden
        finally:
            hidden.unlink(missing_ok=True)

    def settle(self, names: Sequence[str]) -> None:
        """See :meth:`Storage.settle`."""
        paths = [self._root / name for name in names]
        for path in (*paths, *{path.parent for path in paths}, self._root):
            _sync(path)

    def folders(self) -> Iterator[Folder]:
        """See :meth:`Storage.folders`."""
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._root.iterdir()):
                if path.is_dir() and not path.is_symlink() and not path.name.startswith(("_", ".")):
                    yield _folder(path)

    def remove(self, name: str) -> None:
        """See :meth:`Storage.remove`."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root / name)


def _folder(path: Path) -> Folder:
    newest, size = 0.0, 0
    # Itself, too: an empty one is as old as it is.
    for file in (path, *path.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            found = file.stat()
            newest = max(newest, found.st_mtime)
            size += found.st_size if file.is_file() else 0
    return Folder(path.name, datetime.fromtimestamp(newest, timezone.utc) if newest else None, size)


def _sync(path: Path) -> None:
    """Have a file's content, or a directory's names, on the disk."""
    # Elsewhere a directory cannot be opened.
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
