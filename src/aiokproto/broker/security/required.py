"""What the declarations of handlers are made of: the operations that a request needs (pure)."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.codec.schema import Versions


class Required(NamedTuple):
    """An operation that a client needs on the resources that its request is about.

    Without it, the parts of the request that name such a resource are refused, wherever in the request they are; for
    the cluster and a transactional id that is all of it.

    Attributes:
        operation: The operation.
        resource_type: The type of the resources.
        versions: The versions of the request that need it.
        unless: An operation on the cluster that is enough instead.
        together: Whether one resource without it refuses the parts that name others, too.
        otherwise: What the handler does without it, if Kafka's response is not that of refused parts: the handler
            checks it. Empty if it is checked before the handler is called.
    """

    operation: Operation
    resource_type: ResourceType
    versions: Versions = Versions.parse("0+")
    unless: Operation | None = None
    together: bool = False
    otherwise: str = ""

    def __str__(self) -> str:
        """Return it for a table: "CREATE on TOPIC, or on CLUSTER"."""
        text = f"{self.operation.name} on {self.resource_type.name}"
        if self.unless is not None:
            text += f", or {'' if self.unless is self.operation else f'{self.unless.name} '}on CLUSTER"
        if self.versions != Versions.parse("0+"):
            text += f" (v{self.versions})"
        return text


BROKERS_ONLY = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),)
"""For requests between nodes of the cluster, and for handlers without a declaration: forgetting it is safe."""
