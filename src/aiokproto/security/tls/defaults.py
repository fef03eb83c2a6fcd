"""What every TLS client here does, whatever its options: default contexts, and the refusal of anonymous servers."""

from __future__ import annotations

import ssl


def default_context(cafile: str | None = None) -> ssl.SSLContext:
    """Return Python's default context, which verifies certificate and host name, but ignores names in the subject.

    Args:
        cafile: A file with the authorities to trust, in PEM. Default None: the system's.

    Raises:
        OSError: The file can't be used.
    """
    return by_alternative_names(ssl.create_default_context(cafile=cafile))


def by_alternative_names(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make a context look for the host in a certificate's subject alternative names alone (RFC 9525, section 2).

    If there are none, OpenSSL takes the subject's common name for a host name, although it can be anything.
    """
    context.hostname_checks_common_name = False
    return context


def is_anonymous(tls: ssl.SSLObject | None) -> bool:
    """Return whether a server that must have a certificate has none, after the handshake.

    With a cipher without authentication (aNULL) OpenSSL asks for no certificate, and completes the handshake whatever
    ``verify_mode`` and ``check_hostname`` say. This happens on the client's side alone, where ``CERT_OPTIONAL`` means
    the same as ``CERT_REQUIRED``: a server that must verify clients refuses them then.

    Args:
        tls: The connection's TLS; None without.
    """
    return tls is not None and tls.context.verify_mode is not ssl.CERT_NONE and not tls.getpeercert(binary_form=True)
