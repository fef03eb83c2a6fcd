"""The coordinator cache, and both forms of FindCoordinator requests and responses (pure; KIP-699)."""

from __future__ import annotations

from enum import IntEnum

from aiokproto.authorization import Asked
from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.errors import UnsupportedVersionError, check

BATCHED_VERSION = 4
"""First version of FindCoordinator that takes several keys, in different fields (KIP-699)."""


_KINDS_VERSION = 1
"""First version of FindCoordinator that finds coordinators of anything but groups (KIP-98)."""


MAX_KEYS = 10_000
"""Maximum number of groups and ids whose coordinator is cached."""


class CoordinatorKind(IntEnum):
    """FindCoordinator's ``key_type``."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class CoordinatorCache:
    """Maps each group, transactional id or share partition to its coordinator's node id.

    An entry stays until :meth:`forget`, or until :data:`MAX_KEYS` newer ones have been added. Coordinators rarely move,
    and a wrong or missing entry costs one request.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[CoordinatorKind, str], int] = {}

    def get(self, kind: CoordinatorKind, key: str) -> int | None:
        return self._nodes.get((kind, key))

    def put(self, kind: CoordinatorKind, key: str, node: int) -> None:
        self._nodes[kind, key] = node
        if len(self._nodes) > MAX_KEYS:
            del self._nodes[next(iter(self._nodes))]

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        self._nodes.pop((kind, key), None)


def find_coordinator_request(kind: CoordinatorKind, key: str, version: int) -> FindCoordinatorRequest:
    """Return the request for one key, as that version encodes it.

    Raises:
        UnsupportedVersionError: This version only finds coordinators of groups.
    """
    if version < _KINDS_VERSION and kind is not CoordinatorKind.GROUP:
        raise UnsupportedVersionError(
            f"FindCoordinator version {version} finds no coordinators of transactional ids: transactions need brokers "
            "of Kafka 0.11 or later"
        )
    if version >= BATCHED_VERSION:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return FindCoordinatorRequest(key=key, key_type=kind)


def found_coordinator(
    response: FindCoordinatorResponse, kind: CoordinatorKind, key: str, principal: str = ""
) -> BrokerNode:
    """Return the coordinator in a FindCoordinator response of any version.

    The response must have been checked (``answers``).

    ``principal`` names the client in an error.

    Raises:
        BrokerError: The response has an error code instead.
    """
    context = f"FindCoordinator for {kind.name.lower()} {key!r}"
    asked = Asked(FindCoordinatorRequest.api_key, group=key, transactional_id=key, principal=principal)
    # Before version 4 there is no list. The response itself shows that, so this function doesn't need the version.
    if not response.coordinators:
        check(response.error_code, context, response.error_message, asked)
        return BrokerNode(response.node_id, response.host, response.port)
    # There is exactly one: the request had one key, and cluster/answers.py has checked the response.
    (found,) = response.coordinators
    check(found.error_code, context, found.error_message, asked)
    return BrokerNode(found.node_id, found.host, found.port)
