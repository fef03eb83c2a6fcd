"""What all TLS clients here have in common: default contexts, and the detection of anonymous servers."""

from __future__ import annotations

import ssl


def default_context(cafile: str | None = None) -> ssl.SSLContext:
    """Return Python's default context, which verifies certificate and host name.

    Common names don't count as host names.

    Args:
        cafile: A PEM file with the authorities to trust. Default None: the system's.

    Raises:
        OSError: The file can't be used.
    """
    return by_alternative_names(ssl.create_default_context(cafile=cafile))


def by_alternative_names(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make a context look for the host name only in a certificate's subject alternative names (RFC 9525, section 2).

    If there are none, OpenSSL would treat the subject's common name as a host name, although it can be anything.
    """
    context.hostname_checks_common_name = False
    return context


def is_anonymous(tls: ssl.SSLObject | None) -> bool:
    """Return whether the handshake succeeded without a server certificate although one is required.

    With an anonymous cipher (aNULL), OpenSSL doesn't request a certificate, and completes the handshake whatever
    ``verify_mode`` and ``check_hostname`` say. This can only happen to clients, where ``CERT_OPTIONAL`` means the same
    as ``CERT_REQUIRED``: a server that must verify its clients refuses such a handshake.

    Args:
        tls: The connection's TLS object; None if it doesn't use TLS.
    """
    return tls is not None and tls.context.verify_mode is not ssl.CERT_NONE and not tls.getpeercert(binary_form=True)
