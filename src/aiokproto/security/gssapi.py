"""GSSAPI (RFC 4752): Kerberos V5, with the system's library and the package ``gssapi``.

**Tickets.** A client needs a service ticket for each broker. It gets these from a KDC with a ticket-granting ticket,
which ``kinit`` puts into a credential cache, or which the library gets with a keytab. Tickets from a keytab are kept in
the memory of this process. In each exchange the client requests a ticket from the library, which gets a new one if half
of the old one's lifetime has passed. So nothing has to run between exchanges. While no KDC can be reached, the old
tickets are used.

**The exchange.** Client and broker exchange context tokens until they have authenticated each other. Then the broker
offers security layers, and the client selects none, since Kafka doesn't support any.

**Threads.** The library blocks while it reads files and waits for a KDC, for half a minute if the KDC doesn't answer.
Only the first step blocks, and it runs in a thread. For each set of tickets only one such step runs at a time, since
two concurrent steps would replace each other's tickets.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError
from aiokproto.security.kerberos_errors import NO_CCACHE, code_of, ticket_error
from aiokproto.security.mechanism import SaslExchange

T = TypeVar("T")

SLOW = 5.0
"""If getting a ticket is cancelled after at least this time (s), that is logged."""

_NO_LAYER = 1
"""The bit for "no security layer" in the broker's offer and the client's selection (RFC 4752 §3.3)."""

_TYPED = re.compile(r"[A-Za-z]{2,}:")
"""Matches a keytab or credential cache with a type, as in ``FILE:/path`` or ``KCM:``. A single letter would be a
Windows drive."""

logger = logging.getLogger("aiokproto.security")


class Gssapi:
    """GSSAPI, that is, Kerberos. Needs the extra ``gssapi``.

    If neither ``keytab`` nor ``ccache`` is given, the client uses the tickets that ``kinit`` has put into the default
    credential cache, or the cache in ``KRB5CCNAME``.

    Args:
        service_name: The first part of the brokers' principals. Default ``"kafka"``.
        domain_name: The second part of the brokers' principals, if it's the same for all of them. Default None: the
            host that each broker advertises. The library may replace it with a name from DNS
            (``dns_canonicalize_hostname`` and ``rdns`` in ``krb5.conf``).
        principal: The client's principal. Default None: the first principal in the keytab, or the credential cache's
            principal.
        keytab: A file with keys of the principal. The client uses it to get tickets, and new ones before they expire.
        ccache: A credential cache that something else keeps up to date: a file, or a cache with its type, as in
            ``KCM:``.

    Raises:
        ConfigurationError: The package ``gssapi`` is missing, or an argument is invalid.
    """

    name = "GSSAPI"

    def __init__(
        self,
        *,
        service_name: str = "kafka",
        domain_name: str | None = None,
        principal: str | None = None,
        keytab: str | Path | None = None,
        ccache: str | Path | None = None,
    ) -> None:
        self._service = _text("sasl_kerberos_service_name", service_name)
        self._domain = None if domain_name is None else _text("sasl_kerberos_domain_name", domain_name)
        self._principal = None if principal is None else _text("sasl_kerberos_principal", principal)
        self._keytab = None if keytab is None else _with_type("sasl_kerberos_keytab", keytab)
        self._ccache = None if ccache is None else _with_type("sasl_kerberos_ccache", ccache)
        if self._keytab is not None and self._ccache is not None:
            raise ConfigurationError("sasl_kerberos_keytab and sasl_kerberos_ccache are given: expected one of them")
        _library()

    def exchange(self, host: str) -> SaslExchange:
        """Start an exchange."""
        tickets = _tickets(self._principal, self._keytab, self._ccache)
        return GssapiExchange(tickets, self._service, self._domain or host)

    def __repr__(self) -> str:
        return f"Gssapi(service_name={self._service!r}, principal={self._principal!r})"


class Tickets:
    """The tickets of a principal, from a keytab or in a credential cache."""

    def __init__(self, principal: str | None, keytab: str | None, ccache: str | None) -> None:
        self._principal = principal
        self._keytab = keytab
        self._store: dict[str, str] | None = None
        if keytab is not None:
            # Name the cache after keytab and principal, so clients with the same keytab and principal share it.
            self._store = {"client_keytab": keytab, "ccache": f"MEMORY:aiokproto {keytab} {principal or ''}"}
        elif ccache is not None:
            self._store = {"ccache": ccache}
        self._calls = SerialCalls("aiokproto-kerberos")

    async def start(self, service: str, host: str) -> tuple[Any, bytes, Any]:
        """Start a security context with a broker. Return it, its first token, and the credentials that it uses.

        Raises:
            AuthenticationError: The KDC refuses a ticket.
            BrokerConnectionError: There is no valid ticket, and no KDC to get one from.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return await self._calls.call(lambda: self._start(service, host))
        except asyncio.CancelledError:
            if (passed := loop.time() - started) >= SLOW:
                logger.warning(
                    "no ticket for %s/%s in %.3g s: the KDC does not answer, or is slow", service, host, passed
                )
            raise

    def _start(self, service: str, host: str) -> tuple[Any, bytes, Any]:
        library = _library()
        flags = library.RequirementFlag
        with _ticket_errors(f"no Kerberos ticket for {service}/{host}"):
            credentials = self._credentials()
            context = library.SecurityContext(
                name=library.Name(f"{service}@{host}", library.NameType.hostbased_service),
                creds=credentials,
                mech=library.MechType.kerberos,
                usage="initiate",
                flags=flags.mutual_authentication | flags.integrity,
            )
            return context, context.step() or b"", credentials

    def _credentials(self) -> Any:
        try:
            return self._acquire("initiate", self._store)
        except _library().exceptions.GSSError as error:
            if self._keytab is not None and code_of(error.min_code) == NO_CCACHE:
                # Whatever is wrong with the keytab, the library's error is about the cache. Acquiring credentials as an
                # acceptor raises the real error.
                with _ticket_errors(f"keytab {self._keytab}"):
                    self._acquire("accept", {"keytab": self._keytab})
            raise

    def _acquire(self, usage: str, store: dict[str, str] | None) -> Any:
        library = _library()
        principal = self._principal
        try:
            return library.Credentials(
                name=None if principal is None else library.Name(principal, library.NameType.kerberos_principal),
                usage=usage,
                mechs=[library.MechType.kerberos],
                store=store,
            )
        except NotImplementedError:
            raise ConfigurationError(
                "sasl_kerberos_keytab and sasl_kerberos_ccache need MIT Kerberos: this library takes them from the"
                " environment only (KRB5_CLIENT_KTNAME, KRB5CCNAME)"
            ) from None


@cache
def _tickets(principal: str | None, keytab: str | None, ccache: str | None) -> Tickets:
    """Return the tickets, which all clients in this process share."""
    return Tickets(principal, keytab, ccache)


class SerialCalls:
    """Runs functions that block for a long time in a thread, one at a time, for any number of event loops.

    It doesn't use the loop's own threads: a few calls of half a minute each would occupy them all, and ``asyncio.run``
    would wait for them. This thread ends when there are no calls left, and never keeps a process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._running = False
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function, and return its result. Cancelling doesn't stop a call that has started."""
        future: Future[T] = Future()
        with self._lock:
            if not self._running:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._running = True
            self._waiting.append((future, function))
        return await asyncio.wrap_future(future)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                future, function = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:  # noqa: BLE001 - the caller's, whatever it is
                    future.set_exception(error)
                else:
                    future.set_result(result)
            # Drop the references: this thread must not keep anything alive while it waits for the lock.
            del future, function


class GssapiExchange:
    """One exchange. See :class:`~aiokproto.security.mechanism.SaslExchange`."""

    def __init__(self, tickets: Tickets, service: str, host: str) -> None:
        self._tickets = tickets
        self._service = service
        self._host = host
        self._context: Any = None
        self._credentials: Any = None
        self.complete = False
        self.user: str | None = None

    async def start(self) -> bytes:
        self._context, token, self._credentials = await self._tickets.start(self._service, self._host)
        self.user = _name_of(self._credentials)
        return token

    async def respond(self, challenge: bytes) -> bytes | None:
        if self.complete:
            return None
        with self._proof_errors():
            if not self._context.complete:
                # If the step returns no token, the context is complete. The broker expects an empty message before it
                # sends its offer.
                return self._context.step(challenge) or b""
            return self._select(self._context.unwrap(challenge).message)

    def _select(self, offer: bytes) -> bytes:
        if len(offer) != 4:
            raise AuthenticationError("the broker's offer of security layers is malformed")
        if not offer[0] & _NO_LAYER:
            raise AuthenticationError("the broker requires a security layer, which Kafka does not have: use TLS")
        context = self._context
        if _library().RequirementFlag.mutual_authentication not in context.actual_flags:
            raise AuthenticationError("the broker has not proved who it is")
        # If there's no security layer, the maximum message size must be 0. The authorization id is the client's own
        # name, as in Java.
        selection = bytes((_NO_LAYER, 0, 0, 0)) + str(context.initiator_name).encode()
        token: bytes = context.wrap(selection, False).message
        self.complete = True
        return token

    @contextmanager
    def _proof_errors(self) -> Iterator[None]:
        try:
            yield
        except _library().exceptions.GSSError as error:
            if _expired(self._credentials):
                raise BrokerConnectionError(
                    f"the ticket for {self._service}/{self._host} has expired during the exchange: {_message_of(error)}"
                ) from error
            raise AuthenticationError(
                f"the answer of {self._service}/{self._host} proves nothing: {_message_of(error)};"
                " it may not be the broker"
            ) from error


@contextmanager
def _ticket_errors(what: str) -> Iterator[None]:
    try:
        yield
    except _library().exceptions.GSSError as error:
        raise ticket_error(what, error.min_code, _message_of(error)) from error


def _name_of(credentials: Any) -> str | None:
    """Return the principal of tickets; None if they have just expired."""
    try:
        return str(credentials.name)
    except _library().exceptions.GSSError:
        return None


def _expired(credentials: Any) -> bool:
    """Return whether tickets have expired, or will within a second."""
    library = _library()
    try:
        lifetime: int | None = credentials.lifetime
    except library.exceptions.ExpiredCredentialsError:
        return True
    return lifetime is not None and lifetime <= 1


def _message_of(error: Any) -> str:
    """Return the mechanism's error message, or GSSAPI's if the mechanism has none."""
    code, is_major = (error.min_code, False) if code_of(error.min_code) else (error.maj_code, True)
    return " ".join(error.get_all_statuses(code, is_major))


def _library() -> Any:
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise ConfigurationError(
            f"sasl_mechanism 'GSSAPI' needs the package gssapi ({error}): pip install 'aiokproto[gssapi]', which needs"
            " a C compiler and the headers of Kerberos (Debian: libkrb5-dev)"
        ) from error


def _text(option: str, value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigurationError(f"{option}={value!r}: expected text")
    return value


def _with_type(option: str, value: object) -> str:
    if isinstance(value, Path):
        value = f"FILE:{value}"
    if not isinstance(value, str):
        # Leave the value out of the error: it may be the keys themselves.
        raise ConfigurationError(f"{option}: expected the path of a file, got {type(value).__name__}")
    text = _text(option, value)
    return text if _TYPED.match(text) else f"FILE:{text}"
