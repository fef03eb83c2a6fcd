"""How long a client's requests keep the event loop from others, counted in function calls and never in time."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import aiokproto
from aiokproto.broker.handlers import SERVED
from aiokproto.broker.handlers.refused import NOT_SERVED
from aiokproto.codec.frames import encode_request
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.header import RequestHeader
from aiokproto.codec.registry import api_name
from aiokproto.codec.registry import request as request_type
from aiokproto.codec.schema import Buffer
from tests.broker.costly_requests import SHAPES, Shape, request
from tests.broker.secure import guarded, logged_in
from tests.broker.wire import Wire

PACKAGE = str(Path(aiokproto.__file__).parent)

ITEMS = 1500
"""Items of a request: enough for six turns each of decoding, authorizing, refusing, handling and encoding."""

FEW = 5000
"""Calls that don't matter: three for each item, or a millisecond."""


class Turns:
    """Counts the calls of this package's functions in each turn of the event loop."""

    def __init__(self) -> None:
        self.longest = self.all = 0
        self._calls = 0

    def begin(self) -> None:
        sys.setprofile(self._profile)
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def end(self) -> None:
        sys.setprofile(None)
        self._next.cancel()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        # Generated code counts too, and has no file.
        if event == "call" and name.startswith((PACKAGE, "<aiokproto")):
            self._calls += 1

    def _turn(self) -> None:
        self.longest = max(self.longest, self._calls)
        self.all += self._calls
        self._calls = 0
        self._next = asyncio.get_running_loop().call_soon(self._turn)


async def turns_of(wire: Wire, data: Buffer, answers: int = 1) -> Turns:
    """Count the turns until the last answer to what a client sends, or until the broker closes the connection."""
    turns = Turns()
    turns.begin()
    try:
        wire.writer.write(data)
        for _ in range(answers):
            await wire.frame()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        turns.end()
    return turns


async def serve(api_key: int, user: str, shape: Shape) -> Turns:
    """Send a request of a kind that the broker has served before."""
    served = SERVED.get(api_key, request_type(api_key).versions)
    # This request has as many items as the square of this number.
    items = 40 if api_name(api_key) == "StreamsGroupTopologyDescriptionUpdate" and shape == "deep" else ITEMS
    async with guarded(**{"delegation.token.secret.key": "x"}) as broker:
        await broker.create_topic("t", partitions=1)
        turns = Turns()
        for salt in "ab":
            async with logged_in(broker, user) as wire:
                made = request(api_key, served.highest, items, shape, salt)
                turns = await turns_of(wire, encode_request(made, served.highest, 1, "client"))
    return turns


@pytest.mark.parametrize("user", ["admin", "alice"])
@pytest.mark.parametrize("api_key", [*SERVED, *NOT_SERVED], ids=api_name)
async def test_a_request_with_many_items_gives_others_their_turn(api_key: int, user: str) -> None:
    for shape in SHAPES:
        turns = await serve(api_key, user, shape)
        assert turns.longest <= max(FEW, turns.all / 4), (shape, turns.longest, turns.all)


async def test_many_small_requests_give_others_their_turn() -> None:
    """This holds however fast the client sends: the broker has read all requests before it serves the first."""
    async with guarded() as broker, logged_in(broker, "alice") as wire:
        one = encode_request(ApiVersionsRequest(), 0, 1, "")
        turns = await turns_of(wire, one * 2000, 2000)
    assert turns.longest <= turns.all / 20


async def test_finding_what_is_wrong_with_a_request_gives_others_their_turn() -> None:
    names = [f"group{number}" for number in range(ITEMS)]
    async with guarded() as broker:
        turns = Turns()
        for _ in range(2):
            async with logged_in(broker, "alice") as wire:
                frame = encode_request(DescribeGroupsRequest(groups=names), 5, 1, "")
                # The tags at its end claim more than what follows.
                turns = await turns_of(wire, frame[:-1] + b"\xff")
    assert turns.longest <= turns.all / 4


@pytest.mark.parametrize("where", ["header", "body"])
async def test_unknown_tags_give_others_their_turn(where: str) -> None:
    tags = dict.fromkeys(range(100, 6100), b"")
    async with guarded() as broker:
        turns = Turns()
        for _ in range(2):
            async with logged_in(broker, "alice") as wire:
                body = DescribeGroupsRequest(unknown_tags=tags if where == "body" else None).encode(5)
                header = RequestHeader(
                    request_api_key=DescribeGroupsRequest.api_key,
                    request_api_version=5,
                    correlation_id=1,
                    client_id="",
                    unknown_tags=tags if where == "header" else None,
                ).encode(2)
                turns = await turns_of(wire, (len(header) + len(body)).to_bytes(4, "big") + header + body)
    assert turns.longest <= max(FEW, turns.all / 4)
