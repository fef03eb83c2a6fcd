"""Envelope (ApiKey 58): a broker forwards a client's request to the controller (KIP-590)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    """The controller's response for the client. Errors: see `EnvelopeRequest`."""

    response_data: bytes | None = field(default=None, secret=True)
    """Response header and body, encoded as the client expects them; null: `error_code` is set and nothing was
    executed."""
    error_code: int16 = 0


class EnvelopeRequest(Request[EnvelopeResponse], key=58, versions="0", flexible="0+", route=Route.CONTROLLER):
    """Forward a client's request together with the client's identity.

    Sent by brokers to the active controller.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, INVALID_REQUEST, UNSUPPORTED_VERSION,
    PRINCIPAL_DESERIALIZATION_FAILURE. Errors of the forwarded request itself are inside `response_data`.
    """

    request_data: bytes = field(default=b"", secret=True)
    """The client's request, header and body, as the broker received it."""
    request_principal: bytes | None = b""
    """The client's principal, serialized by the broker's KafkaPrincipalSerde (the default is the DefaultPrincipalData
    message); null: not given."""
    client_host_address: bytes = b""
    """The client's IP address: 4 bytes (IPv4) or 16 (IPv6)."""
