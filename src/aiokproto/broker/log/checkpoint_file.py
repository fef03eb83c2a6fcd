"""The text format of Kafka's checkpoint files (CheckpointFile): a version, the number of entries, one entry per line.

The count detects a file that was cut off at the end of a line, which would otherwise be read as a valid shorter file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from aiokproto.broker.log.private_files import private

_VERSION = "0"


def write(path: Path, entries: Sequence[str]) -> None:
    """Replace the file atomically: a crash leaves the old one or the new one, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", opener=private) as file:
        file.write("\n".join([_VERSION, str(len(entries)), *entries, ""]))
        file.flush()
        # Before the rename: a file system may otherwise store the new name before the content, which leaves an empty
        # file after a power failure.
        os.fsync(file.fileno())
    temporary.replace(path)


def read(path: Path) -> list[str] | None:
    """Read the entries; None if the file is missing or damaged."""
    try:
        version, count, *entries = path.read_text().splitlines()
        return entries if version == _VERSION and len(entries) == int(count) else None
    except (OSError, ValueError):
        return None
