"""Brokers before 0.10, which don't report their versions: how they are recognized, and which peers aren't taken for
one."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.client import Client
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from aiokproto.codec.releases import versions_of
from aiokproto.codec.schema import Request, Response
from aiokproto.config import ClusterConfig
from aiokproto.errors import BrokerConnectionError, DeadlineError, DecodeError, KafkaError, UnsupportedVersionError
from aiokproto.net.open import SILENCE, open_connection
from tests.net.peer import Answer, HangUp, connected, peer, serves
from tests.net.test_connection import VERSIONS, beat, echo, hangs_up, silent
from tests.timeouts import LONG_TIMEOUT


def no_groups(request: object, version: int) -> ListGroupsResponse:
    return ListGroupsResponse()


def no_offsets(request: object, version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse()


async def test_a_broker_before_0_10_closes_the_connection_on_api_versions() -> None:
    """The client asks it again in version 0, and once more after ListGroups, which 0.9 answers."""
    async with (
        peer({ApiVersionsRequest: hangs_up, HeartbeatRequest: echo, ListGroupsRequest: no_groups}) as broker,
        connected(broker.port) as line,
    ):
        assert [(type(request), version) for request, version in broker.requests] == [
            (ApiVersionsRequest, ApiVersionsRequest.versions.highest),
            (ApiVersionsRequest, 0),
            (ListGroupsRequest, 0),
            (ApiVersionsRequest, 0),
        ]
        assert line.versions.assumed
        assert broker.connections == 4
        assert (await line.send(beat(5), timeout=LONG_TIMEOUT)).error_code == 5
        assert broker.requests[-1][1] == 0


async def test_a_broker_of_0_8_closes_the_connection_on_list_groups_too() -> None:
    closed: dict[type[Request[Any]], Answer] = {ApiVersionsRequest: hangs_up, ListGroupsRequest: hangs_up}
    answered: dict[type[Request[Any]], Answer] = {ListOffsetsRequest: no_offsets, HeartbeatRequest: echo}
    async with peer(closed | answered) as broker, connected(broker.port) as line:
        assert broker.connections == 5
        with pytest.raises(UnsupportedVersionError, match=r"needs Kafka 0\.9 or later.*is like Kafka 0\.8\.2"):
            await line.send(beat(5), timeout=LONG_TIMEOUT)


async def test_what_closes_every_connection_is_not_taken_for_an_old_broker() -> None:
    """A proxy without its broker, a broker at its limit of connections, or one that is stopping."""
    async with peer({}) as broker:
        with pytest.raises(BrokerConnectionError, match="before its first response: the broker is starting"):
            async with connected(broker.port):
                raise AssertionError
        assert broker.connections == 4


@pytest.mark.parametrize("closed", range(1, 4))
async def test_a_broker_that_is_back_while_it_is_probed_is_asked(closed: int) -> None:
    """Any of the connections may be the first that a proxy forwards again."""
    turns: list[int] = []

    def away(answer: Answer) -> Answer:
        def answered(request: object, version: int) -> Response | bytes | None:
            turns.append(version)
            if len(turns) <= closed:
                raise HangUp
            return answer(request, version)

        return answered

    answers: dict[type[Request[Any]], Answer] = {
        ApiVersionsRequest: away(VERSIONS),
        ListGroupsRequest: away(no_groups),
        ListOffsetsRequest: away(no_offsets),
    }
    async with peer(answers) as broker, connected(broker.port) as line:
        assert not line.versions.assumed
        assert broker.connections == closed + 1


async def test_a_broker_of_0_9_ignores_api_versions_and_answers_list_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokproto.net.open.SILENCE", 0.01)
    ignores: dict[type[Request[Any]], Answer] = {ApiVersionsRequest: silent, ListGroupsRequest: no_groups}
    async with peer({**ignores, HeartbeatRequest: echo}) as broker, connected(broker.port) as line:
        assert (await line.send(beat(5), timeout=LONG_TIMEOUT)).error_code == 5
        assert line.versions.ranges == versions_of("0.9")
        # There are three: the one whose request was ignored, the probe, and the one in use.
        assert broker.connections == 3


async def test_a_slow_broker_is_not_taken_for_one_of_0_9(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers the first request after the probe, which it answers completely."""
    monkeypatch.setattr("aiokproto.net.open.SILENCE", 0.6)
    seen: list[int] = []

    def slow(request: object, version: int) -> Response | bytes | None:
        seen.append(version)
        return VERSIONS(request, version) if len(seen) > 1 else None

    async with peer({ApiVersionsRequest: slow, ListGroupsRequest: no_groups}) as broker:
        with pytest.raises(DeadlineError, match=r"ApiVersions to .*: no response"):
            async with connected(broker.port, timeout=3.0):
                raise AssertionError
        assert seen == [ApiVersionsRequest.versions.highest, 0]


async def test_a_broker_whose_release_is_given_is_not_asked() -> None:
    async with peer({HeartbeatRequest: echo}) as broker, connected(broker.port, broker_version="0.9") as line:
        assert (await line.send(beat(5), timeout=LONG_TIMEOUT)).error_code == 5
        assert [type(request) for request, _ in broker.requests] == [HeartbeatRequest]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(hangs_up, BrokerConnectionError), (lambda *_: bytes((0, 0, 0, 5, 0, 0, 0, 0, 9)), DecodeError)],
)
async def test_what_another_release_does_is_said_to_be_due_to_the_option(
    answer: Answer, error: type[KafkaError]
) -> None:
    """Brokers close the connection on versions that they do not have, and 0.8 answers in another form than 0.9."""
    async with peer({HeartbeatRequest: answer}) as broker, connected(broker.port, broker_version="0.9") as line:
        with pytest.raises(error, match=r"broker_version='0\.9' may be wrong"):
            await line.send(beat(), timeout=LONG_TIMEOUT)


async def test_a_proxy_that_closes_one_connection_is_not_taken_for_an_old_broker() -> None:
    turns: list[int] = []

    def once(request: ApiVersionsRequest, version: int) -> Response | bytes | None:
        turns.append(version)
        if len(turns) == 1:
            raise HangUp
        return VERSIONS(request, version)

    async with peer({ApiVersionsRequest: once}) as broker, connected(broker.port) as line:
        assert not line.versions.assumed


@pytest.mark.parametrize("closes", [False, True])
async def test_a_broker_that_has_reported_its_versions_is_not_taken_for_an_old_one(closes: bool) -> None:
    """It is slow, or starting: a probe would double the connections to a broker that has too many."""
    turns: list[int] = []

    def answers(request: ApiVersionsRequest, version: int) -> Response | bytes | None:
        turns.append(version)
        if len(turns) == 1:
            return serves(Metadata=(0, 13))(request, version)
        if closes:
            raise HangUp
        return None

    def metadata(request: MetadataRequest, version: int) -> Response:
        node = MetadataResponseBroker(node_id=0, host="127.0.0.1", port=broker.port)
        return MetadataResponse(brokers=[node], controller_id=0)

    served: dict[type[Request[Any]], Answer] = {
        ApiVersionsRequest: answers,
        MetadataRequest: metadata,
        ListGroupsRequest: no_groups,
    }
    async with (
        peer(served) as broker,
        Client(bootstrap_servers=broker.address) as client,
    ):
        # It's longer than the time after which a silent broker would be probed.
        with pytest.raises(KafkaError):
            await client.request(ListGroupsRequest(), node=0, timeout_ms=2 * SILENCE * 1000)
        assert not any(isinstance(request, ListGroupsRequest) for request, _ in broker.requests)


async def test_the_error_of_a_broker_that_closes_connections_now_says_so() -> None:
    async with peer({ApiVersionsRequest: hangs_up, ListGroupsRequest: no_groups}) as broker:
        config = ClusterConfig.parse({"bootstrap_servers": broker.address})
        with pytest.raises(BrokerConnectionError, match="on the first request: it is starting, or stopping"):
            await open_connection("127.0.0.1", broker.port, broker.address, config, LONG_TIMEOUT, answers=True)
        assert [type(request) for request, _ in broker.requests] == [ApiVersionsRequest, ApiVersionsRequest]
