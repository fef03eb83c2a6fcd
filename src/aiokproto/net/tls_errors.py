"""What failed TLS handshakes mean, and what to do about them (pure).

OpenSSL has a code for each reason to reject the broker's certificate. If the broker ends the handshake, it sends an
alert, and the client learns nothing but the alert's name: Java's brokers send CERTIFICATE_UNKNOWN or BAD_CERTIFICATE
for most reasons. With TLS 1.3 the client's handshake is complete before the broker has seen the client's certificate,
so an alert about it arrives like a response to the first request.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import NamedTuple

from aiokproto.errors import AuthenticationError, BrokerConnectionError, NotKafkaError

# The reasons that OpenSSL gives when the peer's reply to the ClientHello is not TLS.
_NOT_TLS = {
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "WRONG_VERSION_NUMBER",
}

_TRUST = (
    "ssl_cafile (or ssl_truststore_location) must have the certificate of the authority that signed it; without these"
    " options the system's authorities are trusted"
)

# The keys are X509_V_ERR_* of OpenSSL's x509_vfy.h.
_REJECTED = {
    3: "ssl_crlfile has no revocation list of the authority that signed it, or of one above (ssl_crl_check_chain)",
    9: "it is not valid yet: check this machine's clock, and the certificate's first day",
    10: "it has expired, or one of its authorities: the broker needs a new one; check this machine's clock too",
    12: "the revocation list in ssl_crlfile has expired: get a new one",
    18: f"it is signed by itself and not trusted: {_TRUST}",
    19: f"the authority at the end of its chain is not trusted: {_TRUST}",
    20: f"the authority that signed it is not known: {_TRUST}, or the broker must send the intermediate certificates",
    21: f"the authority that signed it is not known: {_TRUST}, or the broker must send the intermediate certificates",
    23: "it was revoked, or one of its authorities (ssl_crlfile)",
    26: "it is not for servers: its extended key usage must have serverAuth",
    62: (
        "it does not name this host: connect by a name that is in it (advertised.listeners), or have the broker's"
        " certificate name this host in its subject alternative names"
    ),
    64: (
        "it does not name this IP address: connect by a host name that is in it (advertised.listeners), or have the"
        " broker's certificate name the address in its subject alternative names"
    ),
}

_WEAK = "this client's OpenSSL asks for stronger ones (its security level): the broker needs a new certificate"
_STRICT = (
    "ssl_context has VERIFY_X509_STRICT, as those of ssl.create_default_context() since Python 3.13: the broker needs"
    " a certificate that has it, or clear that flag"
)
_NO_AUTHORITY = (
    "the certificate that signed it does not say that it is an authority (basicConstraints, CA:TRUE): its authority"
    " needs a new one"
)
_REJECTED |= {**dict.fromkeys((66, 67, 68), _WEAK), 79: _NO_AUTHORITY, **dict.fromkeys(range(80, 94), _STRICT)}

_OWN = "the client's certificate (ssl_certfile or ssl_keystore_location)"

# Words in OpenSSL's names of TLS alerts about certificates and access, where retrying doesn't help. Other alerts, such
# as INTERNAL_ERROR, are the broker's own problem and may be temporary. The first match counts.
_REFUSALS = {
    "CERTIFICATE_REQUIRED": "it requires a client certificate: set ssl_certfile, or ssl_keystore_location",
    "BAD_CERTIFICATE": (
        f"it requires a client certificate, or does not accept this one: check {_OWN}, and that the broker's truststore"
        " has its authority"
    ),
    "CERTIFICATE_EXPIRED": f"{_OWN} has expired: renew it",
    "CERTIFICATE_REVOKED": f"{_OWN} was revoked: use another",
    "CERTIFICATE_UNKNOWN": (
        f"it does not accept {_OWN}: it may have expired, or be signed by an authority that is not in the broker's"
        " truststore; the broker's log has the reason"
    ),
    "UNSUPPORTED_CERTIFICATE": f"{_OWN} is of a type that it does not accept, or not for clients (clientAuth)",
    "UNKNOWN_CA": f"it does not know the authority that signed {_OWN}: add that to the broker's truststore",
    "CERTIFICATE": f"it does not accept {_OWN}",
    "ACCESS_DENIED": f"it does not allow access with {_OWN}",
    "DECRYPT_ERROR": f"it cannot verify the signature of {_OWN}",
    "HANDSHAKE_FAILURE": (
        "both sides have no cipher in common (ssl_ciphers, ssl_cipher_suites), or it requires a client certificate"
        " (ssl_certfile or ssl_keystore_location)"
    ),
    "INSUFFICIENT_SECURITY": "it asks for stronger ciphers (ssl_ciphers, ssl_cipher_suites)",
    "PROTOCOL_VERSION": "both sides have no version of TLS in common (ssl_enabled_protocols)",
    "UNKNOWN_PSK": f"it does not accept {_OWN}",
}

# The reasons that OpenSSL gives when this side refuses.
_LOCAL = {
    "UNSUPPORTED_PROTOCOL": "it offers only versions of TLS that are older than this client accepts, which is TLS 1.2",
    "VERSION_TOO_LOW": "it offers only versions of TLS that are older than this client accepts, which is TLS 1.2",
    "DH_KEY_TOO_SMALL": "its Diffie-Hellman key is too short: correct the broker's parameters",
    "WRONG_SIGNATURE_TYPE": "it signs with an algorithm that this client does not accept",
}

# A Kafka listener without TLS reads a ClientHello as a frame of 369 MB, and closes the connection. A load balancer
# without a backend closes it, too, so the error isn't final.
CLOSED_IN_HANDSHAKE = (
    "; a listener without TLS does that: connect to it with security_protocol='PLAINTEXT' or 'SASL_PLAINTEXT'"
)
"""The usual reason why a connection ends before the handshake is complete."""


class Remedies(NamedTuple):
    """What to do about each failure, for one kind of peer.

    Attributes:
        rejected: By OpenSSL's verification error code, if this side rejects the peer's certificate.
        otherwise: For all other codes; empty if there's no advice.
        refused: By word in the name of the peer's alert.
        plain: If the peer does not speak TLS.
        closed: If the peer closed the connection during the handshake.
    """

    rejected: Mapping[int, str]
    otherwise: str
    refused: Mapping[str, str]
    plain: str
    closed: str


BROKER = Remedies(
    _REJECTED,
    "",
    _REFUSALS,
    "connect to a plain listener with security_protocol='PLAINTEXT' or 'SASL_PLAINTEXT'",
    CLOSED_IN_HANDSHAKE,
)
PROXY = Remedies(
    {},
    "proxy_ssl_context has the authorities that are trusted for the proxy, and decides whether its name is verified",
    dict.fromkeys(_REFUSALS, "check proxy_ssl_context: its client certificate, versions and ciphers"),
    "proxy_url begins with 'http://' for a proxy without TLS",
    "; a proxy without TLS does that: its proxy_url begins with 'http://'",
)
"""For a proxy, where one option configures all of TLS."""


def tls_error(peer: str, error: ssl.SSLError, remedies: Remedies = BROKER) -> BrokerConnectionError:
    """Return the error for a failed TLS handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = remedies.rejected.get(error.verify_code, remedies.otherwise)
        text = f"{error.verify_message}: {remedy}" if remedy else error.verify_message
        return AuthenticationError(f"the certificate of {peer} was rejected: {text}")
    reason = error.reason or str(error)
    if reason in _NOT_TLS:
        return NotKafkaError(f"{peer} does not speak TLS ({reason}): {remedies.plain}")
    if reason in _LOCAL:
        return AuthenticationError(f"no TLS with {peer}: {_LOCAL[reason]} ({reason})")
    refused = refusal(peer, error, remedies)
    if refused is not None:
        return refused
    if reason == "UNEXPECTED_EOF_WHILE_READING":
        return BrokerConnectionError(f"{peer} closed the connection in the TLS handshake{remedies.closed}")
    return BrokerConnectionError(f"the TLS handshake with {peer} failed: {reason}")


def refusal(peer: str, error: BaseException | None, remedies: Remedies = BROKER) -> AuthenticationError | None:
    """Return the error if the peer ended a connection with an alert about certificates or access, otherwise None."""
    # OpenSSL has no field for the alert, but names it in the reason (TLSV1_ALERT_UNKNOWN_CA,
    # SSLV3_ALERT_BAD_CERTIFICATE).
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    if reason is None or "ALERT" not in reason:
        return None
    for word, remedy in remedies.refused.items():
        if word in reason:
            return AuthenticationError(f"{peer} ended the TLS handshake: {remedy} ({reason})")
    return None
