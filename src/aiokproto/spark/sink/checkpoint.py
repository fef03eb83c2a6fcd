"""The identity of a streaming query, taken from its checkpoint.

The identity is the query's id, which Spark writes into a new checkpoint before the first batch. The path isn't enough,
because two machines can have checkpoints with the same path, and a checkpoint that is moved still belongs to its query.

If this process can't open the file system, the prefix is made from the path. Spark has the id in its Java process, and
in the properties of tasks (``writers``), but it sends only schema, options and mode to the process that plans a batch.
That process needs the prefix before there are tasks, to fence the previous plan. fsspec could read some of these file
systems, but then the prefix would depend on the installed packages and on their permissions, which can differ from
Spark's.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from pathlib import Path

from aiokproto.errors import ConfigurationError

OPTION = "checkpointLocation"

_DIGITS = 16
"""Hexadecimal digits of the digest of offsets."""

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<authority>//[^/]*)?(?P<path>/.*)")
"""A scheme has more than one letter; a single letter is a drive on Windows."""


def query_id(location: str) -> str | None:
    """Return the id of the query with this checkpoint; None if it isn't on a file system of this machine.

    Raises:
        ConfigurationError: The checkpoint's metadata can't be read, or has no id.
    """
    if (path := _folder(location)) is None:
        return None
    try:
        return str(json.loads((path / "metadata").read_bytes())["id"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{OPTION}={location}: its metadata cannot be read: {error!r}") from error


def last_offsets(location: str) -> str | None:
    """Return a digest of the offsets of a query's last batch; None if its checkpoint isn't on a local file system.

    Spark writes the offsets before it plans the batch, and plans the batch from them every time it runs it. So a batch
    with different offsets is a different batch, even if it has the same number.
    """
    if (path := _folder(location)) is None:
        return None
    try:
        numbers = [int(file.name) for file in (path / "offsets").iterdir() if file.name.isdecimal()]
        # Each source has a line. Skip version and metadata, which contain the time of the batch.
        sources = (path / "offsets" / str(max(numbers))).read_bytes().splitlines()[2:]
    except (OSError, ValueError):
        return None
    return hashlib.sha256(b"\n".join(sources)).hexdigest()[:_DIGITS] if sources else None


def _folder(location: str) -> Path | None:
    match = _URI.fullmatch(location.strip())
    if match is not None and match["scheme"].lower() != "file":
        return None
    return Path(match["path"] if match is not None else location.strip())


def prefix_of(location: str, query: str | None) -> str:
    """Return the prefix of the transactional ids of a query.

    If the query's id is unknown, the prefix is computed from the location. On remote file systems all machines have the
    same location.
    """
    if query is not None:
        return f"spark-{query}"
    match = _URI.fullmatch(location.strip())
    if match is None:
        normalized = posixpath.normpath(location.strip())
    else:
        normalized = f"{match['scheme'].lower()}:{match['authority'] or ''}{posixpath.normpath(match['path'])}"
    return f"spark-{hashlib.sha256(normalized.encode()).hexdigest()[:24]}"
