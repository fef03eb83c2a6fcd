"""Which versions a broker serves, and how a client finds out (pure; KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiokproto._version import __version__
from aiokproto.codec.frames import decode_api_versions
from aiokproto.codec.messages.api_versions import ApiVersion, ApiVersionsRequest
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Buffer, Request, Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import NotKafkaError, UnsupportedVersionError, error_for

API_VERSIONS = 18
SOFTWARE_NAME = "aiokproto"

BEFORE_0_10 = {
    0: Versions(0, 0),  # Produce
    1: Versions(0, 0),  # Fetch
    2: Versions(0, 0),  # ListOffsets
    3: Versions(0, 0),  # Metadata
    8: Versions(0, 1),  # OffsetCommit
    9: Versions(0, 1),  # OffsetFetch
    10: Versions(0, 0),  # FindCoordinator
    11: Versions(0, 0),  # JoinGroup: this and the next five came with 0.9
    12: Versions(0, 0),  # Heartbeat
    13: Versions(0, 0),  # LeaveGroup
    14: Versions(0, 0),  # SyncGroup
    15: Versions(0, 0),  # DescribeGroups
    16: Versions(0, 0),  # ListGroups
}
"""What is assumed of a broker that knows no ApiVersions: what 0.8.2 and 0.9 have in common, and the groups of 0.9 (an
0.8 broker hangs up when asked about those, as about anything that it does not know)."""


class BrokerVersions:
    """The version ranges of a broker's APIs.

    Args:
        ranges: By ApiKey.
        peer: Names the broker in errors.
        assumed: Whether the broker did not say so itself.
    """

    def __init__(self, ranges: Mapping[int, Versions], peer: str, *, assumed: bool = False) -> None:
        self.ranges = dict(ranges)
        self.assumed = assumed
        self._peer = peer
        self._picked: dict[int, int] = {}

    def pick(self, request_type: type[Request[Any]], max_version: int | None = None) -> int:
        """The highest version that both sides have, and at most ``max_version``.

        Raises:
            UnsupportedVersionError: There is none; names both ranges.
        """
        if max_version is None and request_type.api_key in self._picked:
            return self._picked[request_type.api_key]
        theirs = self.ranges.get(request_type.api_key, Versions(0, -1))
        ours = stable(request_type)
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
        has = f"has versions {theirs}" if theirs.lowest <= theirs.highest else "does not have it"
        if self.assumed:
            has += " (taken for a broker before 0.10: it does not answer ApiVersions)"
        limit = "" if max_version is None else f", of which this call can use up to {max_version}"
        return f"{api_name(request_type.api_key)}: {self._peer} {has}, this client has {ours}{limit}"


def stable(request_type: type[Request[Any]]) -> Versions:
    """A request's versions without those whose form may still change."""
    versions, unstable = request_type.versions, request_type.unstable
    if unstable.lowest <= unstable.highest:
        return Versions(versions.lowest, min(versions.highest, unstable.lowest - 1))
    return versions


def ranges_of(api_keys: Iterable[ApiVersion]) -> dict[int, Versions]:
    """The table in an answer to ApiVersions."""
    return {api.api_key: Versions(api.min_version, api.max_version) for api in api_keys}


class Negotiation:
    """One connection's exchange of versions: ask in the newest version, and again in one the broker names.

    A broker that does not have the version asked in answers UNSUPPORTED_VERSION in the form of version 0, naming since
    2.4 the versions of ApiVersions that it has (KIP-511).
    """

    def __init__(self, peer: str, version: int | None = None) -> None:
        self.peer = peer
        self.version = ApiVersionsRequest.versions.highest if version is None else version

    def question(self) -> ApiVersionsRequest:
        """What to ask, in version :attr:`version`."""
        return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)

    def answered(self, frame: Buffer) -> BrokerVersions | None:
        """Read an answer; None: ask again, in what is now :attr:`version`.

        Raises:
            BrokerError: The broker answers with another error.
            NotKafkaError: It rejects also the version that every broker has.
            DecodeError: The answer is broken.
        """
        answer = decode_api_versions(frame, self.version)
        unsupported = answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        if not unsupported and answer.error_code:
            raise error_for(answer.error_code, f"ApiVersions v{self.version} to {self.peer}")
        ranges = ranges_of(answer.api_keys)
        if not unsupported:
            return BrokerVersions(ranges, self.peer)
        if self.version == 0:
            raise NotKafkaError(f"{self.peer} rejects ApiVersions v0, which every broker since 0.10 has")
        theirs = ranges.get(API_VERSIONS, Versions(0, 0))
        # A broker that claims the very version it just rejected must not keep us here for ever.
        self.version = max(0, min(self.version - 1, theirs.highest))
        return None
