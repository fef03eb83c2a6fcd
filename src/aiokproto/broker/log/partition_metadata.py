"""``partition.metadata``: the topic id of a partition's directory (KIP-516).

A topic that was deleted and recreated has a new id, so leftover directories of the old topic aren't served as the new
one.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from aiokproto.broker.log.private_files import make_directory, write_private
from aiokproto.errors import ConfigurationError

FILE = "partition.metadata"

_VERSION = "0"
_ID_BYTES = 16


def read(directory: Path) -> bytes | None:
    """Read the topic id of a directory, or None if there is none.

    Raises:
        ConfigurationError: The file is invalid.
    """
    path = directory / FILE
    try:
        text = path.read_text()
    except OSError:
        return None
    if not text:
        # A power failure may leave the file empty. If so, the next claim() writes it again.
        return None
    try:
        fields = dict(line.split(": ") for line in text.splitlines())
        topic_id = urlsafe_b64decode(fields["topic_id"] + "==")
    except (KeyError, ValueError):
        raise ConfigurationError(f"data_dir: {path} has no topic_id") from None
    if fields.get("version") != _VERSION or len(topic_id) != _ID_BYTES:
        raise ConfigurationError(
            f"data_dir: {path} has another version than {_VERSION}, or a topic_id that is not 16 bytes long"
        )
    return topic_id


def claim(directory: Path, topic_id: bytes) -> None:
    """Write the topic id into a directory. The directory is created if it's missing.

    Raises:
        ConfigurationError: The directory belongs to a different topic id.
    """
    known = read(directory)
    if known == topic_id:
        return
    if known is not None:
        raise ConfigurationError(f"data_dir: {directory} has topic id {_text(known)}, expected {_text(topic_id)}")
    make_directory(directory)
    # The file is replaced as a whole, because a directory with part of an id couldn't be opened again.
    temporary = directory / f"{FILE}.tmp"
    write_private(temporary, f"version: {_VERSION}\ntopic_id: {_text(topic_id)}")
    temporary.replace(directory / FILE)


def _text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
