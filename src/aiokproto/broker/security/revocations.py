"""Revocation lists (CRL) for clients' certificates, which are read again when their file changes."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.security.tls.build import load_revocations
from aiokproto.security.tls.contexts import read
from aiokproto.security.tls.stores import StoreError

logger = logging.getLogger("aiokproto.broker")

_OPTION = "ssl_crlfile"


class _Revocations:
    """The lists that a context has. OpenSSL adds lists, and takes an authority's latest one: none is ever removed."""

    def __init__(self, context: ssl.SSLContext, path: Path) -> None:
        self._context = context
        self._path = path
        self._state: tuple[int, int, int] | None = None

    def load(self) -> None:
        """Read the file if it has changed.

        Raises:
            ConfigurationError: It cannot be used. It is not read again until it changes.
        """
        try:
            found = self._path.stat()
            state = found.st_size, found.st_mtime_ns, found.st_ino
        except OSError:
            state = (0, 0, 0)
        if state != self._state:
            self._state = state
            try:
                load_revocations(self._context, read(_OPTION, self._path))
            except StoreError as error:
                raise ConfigurationError(f"{_OPTION}={str(self._path)!r}: {error}") from None

    def renew(self) -> None:
        """The same, for a new connection: with a file that cannot be used the earlier lists stay, after a warning."""
        try:
            self.load()
        except ConfigurationError as error:
            logger.warning("new revocation lists cannot be used, new connections use the earlier ones: %s", error)


def check_revocations(context: ssl.SSLContext, path: Path, *, chain: bool) -> None:
    """Make a listener's context reject revoked certificates of clients.

    Args:
        context: The context.
        path: The file with the lists, in PEM.
        chain: Whether authorities in between must not be revoked either.

    Raises:
        ConfigurationError: The file cannot be used.
    """
    revocations = _Revocations(context, path)
    revocations.load()
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN if chain else ssl.VERIFY_CRL_CHECK_LEAF
    base: Any = context.sslobject_class

    # The event loop makes one for each connection, and has no other call before a handshake.
    class Checked(base):  # type: ignore[misc]
        @classmethod
        def _create(cls, *args: Any, **options: Any) -> Any:
            revocations.renew()
            return super()._create(*args, **options)

    context.sslobject_class = Checked
