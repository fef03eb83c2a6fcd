"""Which storage an output has."""

from __future__ import annotations

from pathlib import Path

from aiokproto.spark.loads.storage import LOCAL, Storage


def open_storage(out: str | Path, spark: object | None = None) -> Storage:
    """The storage of an output: a path (a local one, whatever Spark's default file system), or a URI.

    ``hdfs://`` and ``viewfs://`` go through the file system classes of ``spark``'s Hadoop, everything else through
    fsspec.

    Raises:
        StorageError: There is nothing to reach it with, or it cannot create a file exclusively.
    """
    uri = str(out) if "://" in str(out) else LOCAL + str(Path(out).absolute())
    uri = uri.rstrip("/")
    scheme = uri.partition("://")[0].lower()
    # Imported where they are used: each needs another library.
    if scheme == "file":
        from aiokproto.spark.loads.local import LocalStorage

        return LocalStorage(uri)
    if scheme in ("hdfs", "viewfs"):
        from aiokproto.spark.loads.hadoop import HadoopStorage

        return HadoopStorage(uri, spark)
    from aiokproto.spark.loads.remote import RemoteStorage

    return RemoteStorage(uri)
