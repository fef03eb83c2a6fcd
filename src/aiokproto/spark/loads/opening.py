"""The choice of an output's storage, by its path or URI."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.storage import LOCAL, Storage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A scheme has more than one letter; a single letter is a drive on Windows."""


def open_storage(out: str | Path, spark: object | None = None) -> Storage:
    """Return the storage of an output, by its path or URI. A path is local, whatever Spark's default file system is.

    ``hdfs://`` and ``viewfs://`` use the file system classes of ``spark``'s Hadoop. Other schemes use fsspec.

    Raises:
        ConfigurationError: It isn't a path or URI, or Spark would resolve it differently.
        StorageError: The package or the session for this scheme is missing.
    """
    scheme, uri = _normalize(out)
    # Import each module on use: each needs a different library.
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


def local_directory(out: str | Path) -> Path | None:
    """Return the directory of an output on a local file system, which needn't exist; None for other outputs.

    Raises:
        ConfigurationError: It isn't a path or URI, or Spark would resolve it differently.
    """
    scheme, uri = _normalize(out)
    return Path(uri.removeprefix(LOCAL)) if scheme == "file" else None


def _normalize(out: str | Path) -> tuple[str, str]:
    """Return the scheme and the normal form of a URI, to keep manifests and data in the same place."""
    if not isinstance(out, str | PurePath):
        raise ConfigurationError(f"out must be a path or a URI, got {type(out).__name__}")
    text = str(out)
    if not text or text.startswith("~"):
        # Refuse an empty path, as from an unset variable, and a ~ that no shell expanded: they'd create unexpected
        # directories.
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
        raise ConfigurationError(f"out={text!r}: remove '//', '.' and '..', which file systems resolve differently")
    return scheme, f"{scheme}://{authority}/{path}".rstrip("/")
