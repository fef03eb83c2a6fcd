"""Version negotiation: which version of each API is used (KIP-35, KIP-511)."""

from __future__ import annotations

import pytest

from aiokproto.codec.frames import encode_response
from aiokproto.codec.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse
from aiokproto.codec.releases import RELEASES, versions_of
from aiokproto.codec.schema import Versions
from aiokproto.errors import BrokerError, DecodeError, NotKafkaError, UnsupportedVersionError
from aiokproto.net.connection import MAX_THROTTLE, throttle
from aiokproto.net.features import FEATURES, HEADERS, SHARE_GROUPS, TIMESTAMPS, Feature
from aiokproto.net.versions import BrokerVersions, Negotiation

NEWEST = ApiVersionsRequest.versions.highest


def frame(answer: ApiVersionsResponse, version: int) -> bytes:
    return bytes(encode_response(answer, version, 1)[4:])


def refusal(*api_keys: ApiVersion) -> bytes:
    return frame(ApiVersionsResponse(error_code=35, api_keys=list(api_keys)), 0)


@pytest.mark.parametrize(
    ("theirs", "limit", "picked"),
    [
        (Versions(0, 99), None, MetadataRequest.versions.highest),
        (Versions(0, 5), None, 5),
        (Versions(3, 5), 4, 4),
        (Versions(0, 5), 99, 5),
    ],
)
def test_the_highest_version_of_both_is_picked(theirs: Versions, limit: int | None, picked: int) -> None:
    assert BrokerVersions({3: theirs}, "b").pick(MetadataRequest, limit) == picked


@pytest.mark.parametrize(
    ("theirs", "limit", "text"),
    [
        (Versions(50, 60), None, "Metadata: broker 1 supports versions 50-60, this client supports 0-13"),
        (Versions(4, 13), 3, "supports versions 4-13, this client supports 0-13, this call at most 3"),
        (None, None, "Metadata: broker 1 does not support it, this client supports 0-13"),
    ],
)
def test_no_common_version_names_both_ranges(theirs: Versions | None, limit: int | None, text: str) -> None:
    ranges = {} if theirs is None else {3: theirs}
    with pytest.raises(UnsupportedVersionError, match=text):
        BrokerVersions(ranges, "broker 1").pick(MetadataRequest, limit)


def test_a_version_that_may_still_change_is_not_picked() -> None:
    unstable = InitProducerIdRequest.unstable.lowest
    assert BrokerVersions({22: Versions(0, 99)}, "b").pick(InitProducerIdRequest) == unstable - 1


def test_the_error_says_that_versions_were_assumed() -> None:
    versions = BrokerVersions.assume("0.9", "old")
    assert versions.pick(HeartbeatRequest) == 0
    needs = r"idempotence needs Kafka 0\.11 or later .*is like Kafka 0\.9 \(assumed, as it has no ApiVersions\)"
    with pytest.raises(UnsupportedVersionError, match=needs):
        versions.pick(InitProducerIdRequest)
    with pytest.raises(UnsupportedVersionError, match=r"membership in a group needs Kafka 0\.9 or later"):
        BrokerVersions.assume("0.8.2", "older").pick(JoinGroupRequest)


def test_a_lacking_feature_names_its_release_and_what_was_found() -> None:
    versions = BrokerVersions(versions_of("0.10.2"), "broker 7 (kafka:9092)")
    versions.require(TIMESTAMPS)
    text = (
        r"headers of records need Kafka 0\.11 or later \(Produce version 3\): broker 7 \(kafka:9092\) supports Produce "
        r"0-2, and is like Kafka 0\.10\.2; leave them out"
    )
    with pytest.raises(UnsupportedVersionError, match=text):
        versions.require(HEADERS, "leave them out")
    with pytest.raises(UnsupportedVersionError, match="does not support ShareFetch"):
        versions.require(SHARE_GROUPS)


def test_a_broker_that_is_too_new_gets_no_advice_to_upgrade_it() -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions({3: Versions(50, 60)}, "broker 1").pick(MetadataRequest)
    assert "needs Kafka" not in str(caught.value)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_each_feature_belongs_to_a_release(feature: Feature) -> None:
    assert feature.since in RELEASES
    assert not BrokerVersions(versions_of(RELEASES[0]), "old").supports(feature)
    assert BrokerVersions(versions_of(RELEASES[-1]), "new").supports(feature)


def test_negotiation_at_first_try() -> None:
    negotiation = Negotiation("b")
    answer = ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=16, min_version=0, max_version=2)])
    versions = negotiation.handle_response(frame(answer, NEWEST))
    assert versions is not None
    assert versions.pick(ListGroupsRequest) == 2
    assert negotiation.request().client_software_name == "aiokproto"


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (refusal(ApiVersion(api_key=18, min_version=0, max_version=3)), 3),
        (refusal(ApiVersion(api_key=18, min_version=0, max_version=99)), NEWEST - 1),
        (refusal(ApiVersion(api_key=3, min_version=0, max_version=9)), 0),
        (refusal(), 0),
        # librdkafka's mock cluster sends the first. The second has a list of length -1.
        (bytes.fromhex("00000007 0023 01 0012 0000 0002 00000000"), 0),
        (bytes.fromhex("00000007 0023 ffffffff"), 0),
    ],
)
def test_a_refusal_leads_to_the_highest_version_the_broker_names(answer: bytes, then: int) -> None:
    """It goes down to version 0 if the broker names none (before 2.4), and always to a version below the refused
    one."""
    negotiation = Negotiation("b")
    assert negotiation.handle_response(answer) is None
    assert negotiation.version == then


def test_a_broker_that_refuses_everything_ends_the_negotiation() -> None:
    negotiation = Negotiation("the thing", version=0)
    with pytest.raises(NotKafkaError, match="the thing rejects ApiVersions v0"):
        negotiation.handle_response(refusal())


def test_another_error_code_is_raised_as_the_brokers_error() -> None:
    with pytest.raises(BrokerError, match=f"ApiVersions v{NEWEST} to b: CLUSTER_AUTHORIZATION_FAILED"):
        Negotiation("b").handle_response(frame(ApiVersionsResponse(error_code=31, api_keys=[]), NEWEST))


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", b"\0\0\0\1\0\0\xff\xff\xff\xff\xff\xff"])
def test_a_malformed_response(data: bytes) -> None:
    with pytest.raises(DecodeError):
        Negotiation("b").handle_response(data)


@pytest.mark.parametrize(
    ("milliseconds", "version", "pause"),
    [(500, 6, 0.5), (500, 5, 0.0), (0, 6, 0.0), (-1, 6, 0.0), (10**9, 6, MAX_THROTTLE)],
)
def test_the_client_delays_requests_only_in_versions_that_leave_it_to_the_client(
    milliseconds: int, version: int, pause: float
) -> None:
    """Before Metadata v6 the broker itself delays the response (KIP-219)."""
    answer = MetadataResponse(throttle_time_ms=milliseconds, brokers=[], topics=[])
    assert throttle(answer, version) == pause
