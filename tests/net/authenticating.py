"""A mechanism that counts, and a scripted broker that authenticates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.error_codes import ErrorCode
from tests.net.peer import Answer, serves

SASL = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2), "Heartbeat": (0, 4)}


@dataclass
class Counting:
    """A mechanism that counts the challenges, and is complete after a number of tokens."""

    name: str = "COUNTING"
    tokens: int = 1
    complete_early: bool = False
    hosts: list[str] = field(default_factory=list)
    challenges: list[bytes] = field(default_factory=list)
    fails: Exception | None = None

    def exchange(self, host: str) -> CountingExchange:
        self.hosts.append(host)
        return CountingExchange(self)


class CountingExchange:
    def __init__(self, mechanism: Counting) -> None:
        self.mechanism = mechanism
        self.sent = 0

    @property
    def complete(self) -> bool:
        return self.mechanism.complete_early and self.sent >= self.mechanism.tokens

    async def start(self) -> bytes:
        self.sent = 1
        return b"token 1"

    async def respond(self, challenge: bytes) -> bytes | None:
        self.mechanism.challenges.append(challenge)
        if self.mechanism.fails is not None:
            raise self.mechanism.fails
        if self.sent == self.mechanism.tokens:
            return None
        self.sent += 1
        return b"token %d" % self.sent


def accept(request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(mechanisms=[request.mechanism])


def echo(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=bytes(request.auth_bytes), error_message=None)


def refused(code: ErrorCode, text: str | None = None) -> Answer:
    return lambda request, version: SaslAuthenticateResponse(error_code=code, error_message=text)


def answers(**changes: Any) -> dict[Any, Answer]:
    return {
        ApiVersionsRequest: serves(**SASL),
        SaslHandshakeRequest: changes.get("handshake", accept),
        SaslAuthenticateRequest: changes.get("authenticate", echo),
        HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=request.generation_id),
    }


def beat(number: int = 0) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
