"""Which API versions a broker supports, and the exchange that reports them (pure; KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiokproto._version import __version__
from aiokproto.codec.frames import decode_api_versions
from aiokproto.codec.messages.api_versions import ApiVersion, ApiVersionsRequest
from aiokproto.codec.registry import api_name
from aiokproto.codec.releases import release_like, versions_of
from aiokproto.codec.schema import Buffer, Request, Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import MisroutedConnectionError, NotKafkaError, UnsupportedVersionError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.features import Feature, need_of

API_VERSIONS = 18
# Controllers serve Vote, but not clients' Metadata requests.
_METADATA, _VOTE = 3, 52

SOFTWARE_NAME = "aiokproto"

BY_OPTION = "by broker_version"
"""The reason for assumed versions, if the application has set ``broker_version``."""

BEFORE_0_10 = ("0.8.2", "0.9")
"""Releases without ApiVersions. Their versions are in :mod:`aiokproto.codec.releases`."""


class BrokerVersions:
    """The version ranges of a broker's APIs, and the cluster's finalized features (KIP-584).

    Args:
        ranges: Version range by ApiKey.
        peer: Names the broker in errors.
        features: Level of each finalized feature, such as ``transaction.version``, as of the ApiVersions exchange.
        assumed: Why a release in :data:`BEFORE_0_10` was assumed; empty if the broker itself reported these versions.
    """

    def __init__(
        self,
        ranges: Mapping[int, Versions],
        peer: str,
        *,
        features: Mapping[str, int] | None = None,
        assumed: str = "",
    ) -> None:
        self.ranges = dict(ranges)
        self.features = dict(features or {})
        self.assumed = assumed
        self._peer = peer
        self._picked: dict[int, int] = {}

    @classmethod
    def assume(cls, release: str, peer: str, why: str = "as it has no ApiVersions") -> BrokerVersions:
        """Return the versions of a release, for a broker that can't report them."""
        return cls(versions_of(release), peer, assumed=why)

    @property
    def assumed_release(self) -> str | None:
        """The release that was assumed; None if the broker itself reported these versions."""
        return release_like(self.ranges) if self.assumed else None

    def supports(self, feature: Feature) -> bool:
        """Return whether the broker has a feature."""
        theirs = self.ranges.get(feature.api_key)
        return theirs is not None and theirs.highest >= feature.version

    def require(self, feature: Feature, advice: str = "") -> None:
        """Raise unless the broker has a feature.

        Args:
            feature: The feature.
            advice: What to do instead, for the end of the message.

        Raises:
            UnsupportedVersionError: It doesn't have the feature. The message says which release the feature needs, and
                what was found.
        """
        if not self.supports(feature):
            theirs = self.ranges.get(feature.api_key)
            api = api_name(feature.api_key)
            has = f"does not support {api}" if theirs is None else f"supports {api} {theirs}"
            raise UnsupportedVersionError(
                f"{feature.need}: {self._peer} {has}, and is like {self._like()}{advice and f'; {advice}'}"
            )

    def _like(self) -> str:
        assumed = f" (assumed, {self.assumed})" if self.assumed else ""
        return f"Kafka {release_like(self.ranges)}{assumed}"

    def pick(self, request_type: type[Request[Any]], max_version: int | None = None) -> int:
        """Return the highest version that client and broker support, at most ``max_version``.

        Unstable versions count only if ``max_version`` is an unstable one.

        Raises:
            UnsupportedVersionError: There is no such version. The message includes both ranges.
        """
        # Cache the result: this runs for every request. Calls with a `max_version` are rare, so their results aren't
        # cached.
        if max_version is None and request_type.api_key in self._picked:
            return self._picked[request_type.api_key]
        # If the broker doesn't list the API, use an empty range, so the comparison below fails.
        theirs = self.ranges.get(request_type.api_key, Versions(0, -1))
        ours = request_type.versions if max_version in request_type.unstable else stable(request_type)
        limit = ours.highest if max_version is None else min(ours.highest, max_version)
        version = min(limit, theirs.highest)
        if version < max(ours.lowest, theirs.lowest):
            raise UnsupportedVersionError(self._explain(request_type, ours, theirs, max_version))
        if max_version is None:
            self._picked[request_type.api_key] = version
        return version

    def _explain(
        self, request_type: type[Request[Any]], ours: Versions, theirs: Versions, max_version: int | None
    ) -> str:
        has = f"supports versions {theirs}" if theirs.lowest <= theirs.highest else "does not support it"
        if _METADATA not in self.ranges and _VOTE in self.ranges:
            has += " (it is a listener of KRaft controllers: connect to one of brokers)"
        limit = "" if max_version is None else f", this call at most {max_version}"
        # Give this advice only if the broker is too old. If it's too new, the client has to be updated.
        need = need_of(request_type.api_key, ours.lowest) if theirs.highest < ours.lowest else None
        older = f"; {need}, and the broker is like {self._like()}" if need else ""
        return f"{api_name(request_type.api_key)}: {self._peer} {has}, this client supports {ours}{limit}{older}"


def stable(request_type: type[Request[Any]]) -> Versions:
    """Return a request's versions without the unstable ones (``latestVersionUnstable``), whose schema can change."""
    versions, unstable = request_type.versions, request_type.unstable
    if unstable.lowest <= unstable.highest:
        return Versions(versions.lowest, min(versions.highest, unstable.lowest - 1))
    return versions


def ranges_of(api_keys: Iterable[ApiVersion]) -> dict[int, Versions]:
    """Return the version range of each ApiKey in an ApiVersions response."""
    return {api.api_key: Versions(api.min_version, api.max_version) for api in api_keys}


class Identity(NamedTuple):
    """The cluster and broker that a connection should reach (KIP-1242).

    Attributes:
        cluster_id: The cluster's id; None if it is unknown.
        node_id: The broker's id; -1 if it is unknown.
    """

    cluster_id: str | None = None
    node_id: int = -1


ANYONE = Identity()
"""The identity of a bootstrap address, which may lead to any broker."""


class Negotiation:
    """A connection's ApiVersions exchange: first in the newest version, then in a version that the broker supports.

    ApiVersions is the only request that is sent without knowing the broker's versions. A broker that does not support
    the version responds UNSUPPORTED_VERSION in the schema of version 0; since 2.4 that response lists the versions of
    ApiVersions that it does support (KIP-511).
    """

    def __init__(self, peer: str, version: int | None = None, identity: Identity = ANYONE) -> None:
        self.peer = peer
        self._identity = identity
        self.version = ApiVersionsRequest.versions.highest if version is None else version

    def request(self) -> ApiVersionsRequest:
        """Return the request to send, in version :attr:`version`."""
        return ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME,
            client_software_version=__version__,
            cluster_id=self._identity.cluster_id,
            node_id=self._identity.node_id,
        )

    def handle_response(self, frame: Buffer) -> BrokerVersions | None:
        """Return the broker's versions, or None to send the request again in :attr:`version`, which is now lower.

        Raises:
            BrokerError: The response has an error code other than UNSUPPORTED_VERSION.
            MisroutedConnectionError: The peer is a different broker than expected, or belongs to a different cluster.
            NotKafkaError: The peer rejects even version 0, which every broker with ApiVersions supports.
            DecodeError: The response is malformed.
        """
        response = decode_api_versions(frame, self.version)
        # This is the only comparison of an error code outside of `failures`: here it's part of the exchange, and
        # selects the response's schema (KIP-511).
        unsupported = response.error_code == ErrorCode.UNSUPPORTED_VERSION
        if not unsupported and response.error_code:
            error = error_for(response.error_code, f"ApiVersions v{self.version} to {self.peer}")
            if classify(error, Situation(API_VERSIONS)) is Action.REBOOTSTRAP:
                raise MisroutedConnectionError(self._misrouted()) from error
            raise error
        ranges = ranges_of(response.api_keys)
        if not unsupported:
            features = {feature.name: feature.max_version_level for feature in response.finalized_features}
            return BrokerVersions(ranges, self.peer, features=features)
        if self.version == 0:
            raise NotKafkaError(f"{self.peer} rejects ApiVersions v0, which every broker since 0.10 has")
        # Brokers from 0.10 to 2.3 don't list anything in this response. Use version 0, which all of them support.
        theirs = ranges.get(API_VERSIONS, Versions(0, 0))
        # Always lower the version: a broker that lists the version it has just rejected must not cause an endless loop.
        self.version = max(0, min(self.version - 1, theirs.highest))
        return None

    def _misrouted(self) -> str:
        cluster, node = self._identity
        return (
            f"the address of {self.peer} does not lead to broker {node} of cluster {cluster}: check"
            " advertised.listeners, address_map, and what forwards there"
        )
