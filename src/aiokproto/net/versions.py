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
# Controllers serve the second, and clients' Metadata requests not at all.
_METADATA, _VOTE = 3, 52

SOFTWARE_NAME = "aiokproto"

BY_OPTION = "by broker_version"
"""Why versions are assumed: the application has given the release."""

BEFORE_0_10 = ("0.8.2", "0.9")
"""Releases without ApiVersions. :mod:`aiokproto.codec.releases` has their versions."""


class BrokerVersions:
    """The version ranges of a broker's APIs, and the cluster's finalized features (KIP-584).

    Args:
        ranges: Version range by ApiKey.
        peer: Names the broker in errors.
        features: Level of each finalized feature, such as ``transaction.version``, as of the ApiVersions exchange.
        assumed: Why these are of a release in :data:`BEFORE_0_10`; empty if they are the broker's own response.
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
        """Return the versions of a release, for a broker that isn't asked."""
        return cls(versions_of(release), peer, assumed=why)

    @property
    def assumed_release(self) -> str | None:
        """The release whose versions these are; None if they are the broker's own response."""
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
            UnsupportedVersionError: It has not. The text has the release that the feature needs, and what was found.
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

        Unstable versions count only if ``max_version`` is one.

        Raises:
            UnsupportedVersionError: There is none. The text has both ranges.
        """
        # The result is cached because this runs for every request. A call with a limit of its own is rare, so its
        # result is computed each time.
        if max_version is None and request_type.api_key in self._picked:
            return self._picked[request_type.api_key]
        # An API that the broker doesn't list has an empty range, so the comparison below fails by itself.
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
        # The remedy helps only if the broker is too old; if it is too new, another client is needed.
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
    """Which broker of which cluster a connection should lead to (KIP-1242).

    Attributes:
        cluster_id: The cluster's id; None if it is unknown.
        node_id: The broker's id; -1 if it is unknown.
    """

    cluster_id: str | None = None
    node_id: int = -1


ANYONE = Identity()
"""The identity of a bootstrap address, which may lead to any broker."""


class Negotiation:
    """One connection's ApiVersions exchange: first in the newest version, then in one that the broker supports.

    ApiVersions is the one request sent without knowing the broker's versions. A broker that does not support the
    version responds UNSUPPORTED_VERSION in the schema of version 0; since 2.4 that response lists the versions of
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
        """Return the broker's versions, or None to send the request again in the now lower :attr:`version`.

        Raises:
            BrokerError: The response has an error code other than UNSUPPORTED_VERSION.
            MisroutedConnectionError: The peer is another broker than expected, or of another cluster.
            NotKafkaError: The peer rejects even version 0, which every broker with ApiVersions supports.
            DecodeError: The response is malformed.
        """
        response = decode_api_versions(frame, self.version)
        # This is the one comparison of a code outside of failures: the error selects the response's schema (KIP-511),
        # and is part of the exchange.
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
        # Brokers from 0.10 to 2.3 list nothing in this response, so use version 0, which all of them have.
        theirs = ranges.get(API_VERSIONS, Versions(0, 0))
        # The version is strictly lower each time: a broker that lists the version it has just rejected must not cause
        # an endless loop.
        self.version = max(0, min(self.version - 1, theirs.highest))
        return None

    def _misrouted(self) -> str:
        cluster, node = self._identity
        return (
            f"the address of {self.peer} does not lead to broker {node} of cluster {cluster}: check"
            " advertised.listeners, address_map, and what forwards there"
        )
