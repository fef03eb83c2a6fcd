"""Which storage an output has."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.storage import LOCAL, Storage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""More than a letter: that would be a drive of Windows."""


def open_storage(out: str | Path, spark: object | None = None) -> Storage:
    """The storage of an output: a path (a local one, whatever Spark's default file system), or a URI.

    ``hdfs://`` and ``viewfs://`` go through the file system classes of ``spark``'s Hadoop, everything else through
    fsspec.

    Raises:
        ConfigurationError: It is no such path or URI, or one that Spark would take for another.
        StorageError: There is nothing to reach it with.
    """
    scheme, uri = _normal(out)
    # Imported where they are used: each needs another library.
    if scheme == "file":
        from aiokproto.spark.loads.local import LocalStorage

        if Path(uri.removeprefix(LOCAL)).is_file():
            raise ConfigurationError(f"out={str(out)!r} is a file; it must be a directory")
        return LocalStorage(uri)
    if scheme in ("hdfs", "viewfs"):
        from aiokproto.spark.loads.hadoop import HadoopStorage

        return HadoopStorage(uri, spark)
    from aiokproto.spark.loads.remote import RemoteStorage

    return RemoteStorage(uri)


def _normal(out: str | Path) -> tuple[str, str]:
    """The scheme, and the one URI that an output has: manifests and data must not go to two places."""
    if not isinstance(out, str | PurePath):
        raise ConfigurationError(f"out must be a path or a URI, got {type(out).__name__}")
    text = str(out)
    if not text or text.startswith("~"):
        # An empty variable, or one that a shell has not expanded, would make a directory where nobody looks for it.
        raise ConfigurationError(f"out={text!r}: it must be a path or a URI, without ~")
    if found := re.search(r"[*?\[\]{}\\^]", text):
        raise ConfigurationError(f"out={text!r}: Spark reads {found[0]!r} as a pattern")
    match = _SCHEME.match(text)
    if match is None:
        return "file", LOCAL + str(Path(text).resolve())
    scheme, rest = match[1].lower(), text[match.end() :]
    if isinstance(out, PurePath) or not rest.startswith("/"):
        text = f"out={text!r}: write it as a string with two slashes, {scheme}://…, or as a path without a scheme"
        raise ConfigurationError(text)
    authority, slash, path = rest[1:].partition("/")
    if scheme == "file" and authority:
        raise ConfigurationError(f"out={text!r}: a local path has three slashes, file:///{authority}{slash}{path}")
    if scheme == "file":
        return scheme, LOCAL + str(Path(f"/{path}").resolve())
    parts = path.rstrip("/").split("/")
    if "" in parts[:-1] or not {".", ".."}.isdisjoint(parts):
        raise ConfigurationError(f"out={text!r}: not all file systems take '//', '.' and '..' in a path alike")
    return scheme, f"{scheme}://{authority}/{path}".rstrip("/")
