"""The TLS context of the listeners, and the principal of a client certificate."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

from aiokproto.broker.config.options import BROKER, BrokerOptions
from aiokproto.broker.security.principal import ANONYMOUS, Principal
from aiokproto.broker.security.settings import Security
from aiokproto.errors import ConfigurationError
from aiokproto.security.tls.build import load_revocations
from aiokproto.security.tls.build import server_context as make_context
from aiokproto.security.tls.contexts import read
from aiokproto.security.tls.options import TLS_OPTIONS, parse_tls
from aiokproto.security.tls.stores import StoreError
from aiokproto.security.tls.subject import subject_of

logger = logging.getLogger("aiokproto.broker")

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

_INTERNAL_ERROR = bytes((21, 3, 3, 0, 2, 2, 80))
"""A TLS record with one fatal internal_error alert (RFC 5246, section 7.2)."""


class AlertingObject(ssl.SSLObject):
    """Sends an alert after a failed handshake, as Kafka does, so the client learns why it failed.

    If a handshake fails, asyncio drops the connection without sending what OpenSSL has left to send. So this makes the
    failure look like a handshake that needs more data, which makes asyncio write. Then the client closes the
    connection, or asyncio's handshake timeout does.

    OpenSSL doesn't send an alert if the received bytes aren't TLS. Java does, which shows clients that TLS is expected
    here.
    """

    _failure: ssl.SSLError | None = None
    _outgoing: ssl.MemoryBIO

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> Any:
        made: Any = super()._create(incoming, outgoing, *args, **options)  # type: ignore[misc,unused-ignore]
        made._outgoing = outgoing
        return made

    def do_handshake(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failure = error
            if not self._outgoing.pending:
                self._outgoing.write(_INTERNAL_ERROR)
            # Before Python 3.11, asyncio looks at the error number, not at the class.
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, str(error)) from error


_CRL_OPTION = "ssl_crlfile"
_OPTIONS = tuple(name for name in TLS_OPTIONS if name.replace("_", ".") in BROKER)


def _spell(name: str) -> str:
    return name.replace("_", ".")


def server_context(security: Security, options: BrokerOptions) -> ssl.SSLContext | None:
    """Return the TLS context of the listeners, or None if they don't use TLS.

    Raises:
        ConfigurationError: The certificate is missing or invalid.
    """
    if not security.tls:
        return None
    if security.ssl_context is not None:
        return security.ssl_context
    values = {name: str(options.value(_spell(name))) for name in _OPTIONS}
    parsed = parse_tls({name: value for name, value in values.items() if value}, _spell)
    if parsed.key is None:
        raise ConfigurationError(
            f"{security.protocol} needs ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain,"
            " or Security(ssl_context=…)"
        )
    contents = {option: read(option, path) for option, path in parsed.files.items()}
    # Broker options contain the secrets themselves. No other sources are supported.
    secrets = {_spell(name): value for name, value in values.items() if _spell(name) in parsed.secrets}
    context = make_context(parsed, contents, secrets)
    context.sslobject_class = AlertingObject
    # As in Kafka, disable renegotiation: it costs the broker more than the client, which could request it as often as
    # it likes.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[str(options.value("ssl.client.auth"))]
    if context.verify_mode is not ssl.CERT_NONE and parsed.trusted is None:
        raise ConfigurationError(
            "ssl.client.auth needs ssl.truststore.location or ssl.truststore.certificates, the CA certificates of"
            " clients"
        )
    if security.ssl_crlfile is not None:
        if context.verify_mode is ssl.CERT_NONE:
            raise ConfigurationError("ssl_crlfile has no effect: ssl.client.auth is none")
        check_revocations(context, Path(security.ssl_crlfile), chain=security.ssl_crl_check_chain)
    return context


def principal_of(tls: ssl.SSLObject | None) -> Principal:
    """Return the principal of a client certificate, which is its subject, or ANONYMOUS if the client sent none."""
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return Principal("User", subject_of(certificate)) if certificate else ANONYMOUS


class _Revocations:
    """The revocation lists of a context. OpenSSL only adds lists, never removes them, and uses the latest list of each
    authority."""

    def __init__(self, context: ssl.SSLContext, path: Path) -> None:
        self._context = context
        self._path = path
        self._state: tuple[int, int, int] | None = None

    def load(self) -> None:
        """Read the file if it has changed.

        Raises:
            ConfigurationError: The file can't be used. It isn't read again until it changes.
        """
        try:
            found = self._path.stat()
            state = found.st_size, found.st_mtime_ns, found.st_ino
        except OSError:
            state = (0, 0, 0)
        if state != self._state:
            self._state = state
            try:
                load_revocations(self._context, read(_CRL_OPTION, self._path))
            except StoreError as error:
                raise ConfigurationError(f"{_CRL_OPTION}={str(self._path)!r}: {error}") from None

    def renew(self) -> None:
        """Read the file for a new connection. If it can't be used, log a warning and keep the earlier lists."""
        try:
            self.load()
        except ConfigurationError as error:
            logger.warning("new revocation lists cannot be used, new connections use the earlier ones: %s", error)


def check_revocations(context: ssl.SSLContext, path: Path, *, chain: bool) -> None:
    """Make a listener's context reject revoked client certificates.

    Args:
        context: The context.
        path: The PEM file with the revocation lists.
        chain: Whether to check intermediate authorities for revocation, too.

    Raises:
        ConfigurationError: The file can't be used.
    """
    revocations = _Revocations(context, path)
    revocations.load()
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN if chain else ssl.VERIFY_CRL_CHECK_LEAF
    base: Any = context.sslobject_class

    # The event loop creates one of these per connection. There's no other hook before the handshake.
    class Checked(base):  # type: ignore[misc]
        @classmethod
        def _create(cls, *args: Any, **options: Any) -> Any:
            revocations.renew()
            return super()._create(*args, **options)

    context.sslobject_class = Checked
