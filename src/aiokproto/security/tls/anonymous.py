"""Servers without a certificate. Pure."""

from __future__ import annotations

import ssl


def is_anonymous(tls: ssl.SSLObject | None) -> bool:
    """Return whether a server that must have a certificate has none, after the handshake.

    With a cipher without authentication (aNULL) OpenSSL asks for no certificate, and completes the handshake whatever
    ``verify_mode`` and ``check_hostname`` say. That is the client's side, where ``CERT_OPTIONAL`` means the same as
    ``CERT_REQUIRED``: a server that must verify clients refuses them then.

    Args:
        tls: The connection's TLS; None without.
    """
    return tls is not None and tls.context.verify_mode is not ssl.CERT_NONE and not tls.getpeercert(binary_form=True)
