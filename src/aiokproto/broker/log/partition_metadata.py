"""``partition.metadata``: the id of the topic that a partition's directory is of (KIP-516)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from aiokproto.errors import ConfigurationError

FILE = "partition.metadata"

_VERSION = "0"
_ID_BYTES = 16


def read(directory: Path) -> bytes | None:
    """The topic's id; None if the directory does not say.

    Raises:
        ConfigurationError: What it says cannot be read.
    """
    path = directory / FILE
    try:
        text = path.read_text()
    except OSError:
        return None
    if not text:
        # As a power cut may leave it.
        return None
    try:
        fields = dict(line.split(": ") for line in text.splitlines())
        topic_id = urlsafe_b64decode(fields["topic_id"] + "==")
    except (KeyError, ValueError):
        raise ConfigurationError(f"data_dir: {path} has no topic_id") from None
    if fields.get("version") != _VERSION or len(topic_id) != _ID_BYTES:
        raise ConfigurationError(f"data_dir: {path} is not of version {_VERSION}, or its topic_id has not 16 bytes")
    return topic_id


def claim(directory: Path, topic_id: bytes) -> None:
    """Say of a directory whose it is; it is created if it is not there.

    Raises:
        ConfigurationError: It is another topic's.
    """
    known = read(directory)
    if known == topic_id:
        return
    if known is not None:
        raise ConfigurationError(f"data_dir: {directory} is of the topic {_text(known)}, not of {_text(topic_id)}")
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f"{FILE}.tmp"
    temporary.write_text(f"version: {_VERSION}\ntopic_id: {_text(topic_id)}")
    temporary.replace(directory / FILE)


def _text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
