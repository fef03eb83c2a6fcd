"""The names of Kafka's definitions in the spelling of the declarations here."""

from __future__ import annotations

import re


def snake(name: str) -> str:
    """Return a name in snake case: ``ISRReplicaId`` as ``isr_replica_id``, ``KRaftVersion`` as ``kraft_version``."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("k_raft", "kraft")
