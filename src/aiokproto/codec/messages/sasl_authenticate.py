"""SaslAuthenticate (ApiKey 36): one step of the SASL exchange."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16, int64, string


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    """The server's message in this step. Errors: see `SaslAuthenticateRequest`."""

    error_code: int16 = 0
    error_message: string | None = ""
    auth_bytes: bytes = field(default=b"", secret=True)
    """Data from the server in this step, defined by the mechanism; empty: none."""
    session_lifetime_ms: int64 = field("1+", default=0, ignorable=True)
    """Time until the client must authenticate again, in ms, or the broker closes the connection (KIP-368); 0: no limit.
    Set in the last step."""


class SaslAuthenticateRequest(
    Request[SaslAuthenticateResponse], key=36, versions="0-2", flexible="2+", route=Route.BROKER
):
    """Send one message of the SASL mechanism.

    Sent by clients, and by brokers to each other, on each connection after SaslHandshake version 1 until the mechanism
    is complete (KIP-152).

    Errors: SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE.
    """

    auth_bytes: bytes = field(default=b"", secret=True)
    """Data from the client in this step, defined by the mechanism."""
