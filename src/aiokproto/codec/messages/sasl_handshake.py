"""SaslHandshake (ApiKey 17): choose a SASL mechanism."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16, string


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    """Whether the broker accepts the mechanism. Errors: see `SaslHandshakeRequest`."""

    error_code: int16 = 0
    mechanisms: list[string] = field(factory=list)
    """Mechanisms the listener has enabled (`sasl.enabled.mechanisms`)."""


class SaslHandshakeRequest(Request[SaslHandshakeResponse], key=17, versions="0-1", route=Route.BROKER):
    """Choose the SASL mechanism of a connection.

    Sent by clients, and by brokers to each other, on each new connection and to authenticate again. After version 0,
    the mechanism's messages follow without request headers; after version 1, inside SaslAuthenticate.

    Errors: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE.
    """

    mechanism: string = ""
    """Name of the mechanism: "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER" or "GSSAPI"."""
