"""Contexts of clients, as the system's settings and this package make them."""

from __future__ import annotations

import ssl


def default_context(cafile: str | None = None) -> ssl.SSLContext:
    """Return Python's default context, which verifies certificate and host name, without names in the subject.

    Args:
        cafile: A file with the authorities to trust, in PEM. Default None: the system's.

    Raises:
        OSError: It cannot be used.
    """
    return by_alternative_names(ssl.create_default_context(cafile=cafile))


def by_alternative_names(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make a context look for the host in a certificate's subject alternative names alone (RFC 9525, section 2).

    OpenSSL takes the subject's common name for a host name where there are no others, although it can be anything.
    """
    context.hostname_checks_common_name = False
    return context
