"""The storage of brokers before their first start, as Kafka's own tool formats it, but without a Java process for
each."""

from __future__ import annotations

import base64
import secrets
import shutil
from pathlib import Path

IDENTITY = "meta.properties"


def template_of(jars: Path) -> Path:
    """Return the formatted folder of a release, without the parts that belong to one node. `tests.kafka.template` makes
    it."""
    return jars / "formatted"


def new_id() -> str:
    """Return an id of the kind that Kafka makes."""
    # A name that starts with a dash would be taken for an option. A first bit of 0 rules that out.
    return base64.urlsafe_b64encode(secrets.randbits(127).to_bytes(16, "big")).decode().rstrip("=")


def format_storage(template: Path, data: Path, cluster_id: str, node_id: int) -> None:
    shutil.copytree(template, data, dirs_exist_ok=True)
    identity = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": new_id()}
    (data / IDENTITY).write_text("".join(f"{name}={value}\n" for name, value in identity.items()))
