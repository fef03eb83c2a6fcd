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
    """A local directory. A created file is on the disk before :meth:`create` returns."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        # Don't decode it like the path of a URL. Hadoop doesn't decode escapes either.
        self._root = Path(uri.removeprefix(LOCAL))

    def check(self) -> None:
        """See :meth:`Storage.check`. Some file systems have no hard links."""
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
        """See :meth:`Storage.create`. A hard link creates the name with the complete file, and only if it's free."""
        path = self._root / name
        with self._hidden_file(path, data) as hidden:
            try:
                os.link(hidden, path)
            except FileExistsError:
                return False
        _sync(path.parent)
        return True

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Storage.write`."""
        path = self._root / name
        with self._hidden_file(path, data) as hidden:
            hidden.replace(path)

    @contextlib.contextmanager
    def _hidden_file(self, path: Path, data: bytes) -> Iterator[Path]:
        """Write the data to a hidden file beside ``path``. The file is removed at the end."""
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
        above = {folder for path in paths for folder in path.parents if folder.is_relative_to(self._root)}
        for path in (*paths, *above, self._root):
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
    # Include the directory itself: an empty one has no other modification time.
    for file in (path, *path.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            found = file.stat()
            newest = max(newest, found.st_mtime)
            size += found.st_size if file.is_file() else 0
    return Folder(path.name, datetime.fromtimestamp(newest, timezone.utc) if newest else None, size)


def _sync(path: Path) -> None:
    """Force a file's content, or a directory's names, to the disk."""
    # Skip it on Windows, which can't open directories.
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
