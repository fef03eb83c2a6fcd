"""Outputs on HDFS, through the file system classes of the session's Hadoop."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from aiokproto.spark.loads.storage import PROBE, Folder, StorageError


class HadoopStorage:
    """A directory of a Hadoop file system with atomic renames.

    A file gets its name by a rename that doesn't overwrite. HDFS renames atomically, so if several calls rename to the
    same name, exactly one succeeds.
    """

    def __init__(self, uri: str, spark: object | None) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise StorageError(
                f"{uri} needs Hadoop's classes in the driver's Java process: pass a Spark session (spark=) that has "
                "one, not a session of Spark Connect"
            )
        self.uri = uri
        self._jvm: Any = jvm
        configuration = spark._jsc.hadoopConfiguration()  # type: ignore[union-attr]
        root = jvm.org.apache.hadoop.fs.Path(uri)
        self._fs: Any = root.getFileSystem(configuration)
        self._context: Any = jvm.org.apache.hadoop.fs.FileContext.getFileContext(root.toUri(), configuration)

    def check(self) -> None:
        """See :meth:`Storage.check`."""
        if self.create(PROBE, b"") and self.create(PROBE, b""):
            raise StorageError(f"{self.uri}: a rename overwrites existing files here, so loads cannot be committed")

    def read(self, name: str) -> bytes | None:
        """See :meth:`Storage.read`."""
        path = self._path(name)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, name: str, data: bytes) -> bool:
        """See :meth:`Storage.create`."""
        return self._write_and_rename(name, data, "NONE")

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Storage.write`."""
        self._write_and_rename(name, data, "OVERWRITE")

    def _write_and_rename(self, name: str, data: bytes, how: str) -> bool:
        path = self._path(name)
        folder, _, base = name.rpartition("/")
        hidden = self._path(f"{folder}/.{base}.{secrets.token_hex(8)}")
        self._fs.mkdirs(path.getParent())
        stream = self._fs.create(hidden, False)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._jvm.java.lang.reflect.Array.newInstance(rename.NONE.getClass(), 1)
        options[0] = rename.valueOf(how)
        try:
            self._context.rename(hidden, path, options)
        except Exception as error:
            if "FileAlreadyExistsException" in str(error):
                return False
            raise
        finally:
            self._fs.delete(hidden, False)
        return True

    def settle(self, names: Sequence[str]) -> None:
        """See :meth:`Storage.settle`. There is nothing to do: a closed file is already replicated."""

    def folders(self) -> Iterator[Folder]:
        """See :meth:`Storage.folders`."""
        root = self._jvm.org.apache.hadoop.fs.Path(self.uri)
        if not self._fs.exists(root):
            return
        for status in self._fs.listStatus(root):
            name = status.getPath().getName()
            if status.isDirectory() and not name.startswith(("_", ".")):
                yield self._folder(name, status)

    def remove(self, name: str) -> None:
        """See :meth:`Storage.remove`."""
        self._fs.delete(self._path(name), True)

    def _folder(self, name: str, status: Any) -> Folder:
        newest, size = status.getModificationTime(), 0
        files = self._fs.listFiles(status.getPath(), True)
        while files.hasNext():
            file = files.next()
            newest, size = max(newest, file.getModificationTime()), size + file.getLen()
        return Folder(name, datetime.fromtimestamp(newest / 1000, timezone.utc), size)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{name}")
