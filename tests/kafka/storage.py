"""The storage of brokers before their first start, as Kafka's own tool formats it, but without a Java process each."""

from __future__ import annotations

import base64
import secrets
import shutil
from pathlib import Path

IDENTITY = "meta.properties"


def template_of(jars: Path) -> Path:
    """Where the formatted folder of a release is, less what is one node's own; `tests.kafka.template` makes it."""
    return jars / "formatted"


def new_id() -> str:
    """An id as Kafka makes them."""
    # A name that begins with a dash would be taken for an option; a first bit of 0 rules that out.
    return base64.urlsafe_b64encode(secrets.randbits(127).to_bytes(16, "big")).decode().rstrip("=")


def format_storage(template: Path, data: Path, cluster_id: str, node_id: int) -> None:
    shutil.copytree(template, data, dirs_exist_ok=True)
    identity = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": new_id()}
    (data / IDENTITY).write_text("".join(f"{name}={value}\n" for name, value in identity.items()))
