"""TLS for the listeners, and what a client's certificate says of who it is."""

from __future__ import annotations

import ssl
from typing import Any

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.principal import ANONYMOUS, Principal
from aiokproto.broker.security.settings import Security
from aiokproto.errors import ConfigurationError

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

# As RFC 2253 abbreviates them, and Java with it.
_ATTRIBUTES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def server_context(security: Security, options: BrokerOptions) -> ssl.SSLContext | None:
    """What the listeners encrypt with, or None.

    Raises:
        ConfigurationError: There is no certificate, or it cannot be used.
    """
    if not security.tls:
        return None
    if security.ssl_context is not None:
        return security.ssl_context
    keystore, truststore = str(options.value("ssl.keystore.location")), str(options.value("ssl.truststore.location"))
    if not keystore:
        raise ConfigurationError(f"{security.protocol} needs ssl.keystore.location, a PEM file, or an ssl_context")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    path = keystore
    try:
        context.load_cert_chain(path)
        if truststore:
            path = truststore
            context.load_verify_locations(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be used for TLS: {error}") from None
    context.verify_mode = _CLIENT_AUTH[str(options.value("ssl.client.auth"))]
    if context.verify_mode is not ssl.CERT_NONE and not truststore:
        raise ConfigurationError("ssl.client.auth needs ssl.truststore.location: whose certificates to believe")
    return context


def principal_of(tls: ssl.SSLObject | None) -> Principal:
    """Who a client is by its certificate."""
    certificate: dict[str, Any] | None = tls.getpeercert() if tls is not None else None
    if not certificate:
        return ANONYMOUS
    # From the most particular to the most general, the other way round than in the certificate.
    parts = ["+".join(_attribute(*pair) for pair in part) for part in reversed(certificate["subject"])]
    return Principal("User", ",".join(parts))


def _attribute(name: str, value: str) -> str:
    escaped = "".join(f"\\{char}" if char in ',+"\\<>;' else char for char in value)
    if escaped[:1] in ("#", " "):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and len(value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return f"{_ATTRIBUTES.get(name, name)}={escaped}"
