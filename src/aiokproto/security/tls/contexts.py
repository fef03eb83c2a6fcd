"""Decides when certificates are read: before each new connection, if they have changed.

For each connection :meth:`OptionContexts.context` checks the files' state (size, time of change, inode), and reads the
passwords and texts that come from functions and files. If nothing has changed, the last context is reused. Otherwise a
new one is created, in a thread. If that fails, the old context is kept: the file may just be half-written. This logs a
warning once per cause, and the next connection tries again. The old context is also kept if reading takes longer than
:data:`RENEWAL_LIMIT`, as with a secret store that doesn't respond. There is then no other attempt for
:data:`RENEWAL_PAUSE`, or connections would wait for it one after another.

The state is read before the content, so if a file changes in between, the next check notices.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple, Protocol

from aiokproto.application.calls import failure, without_text
from aiokproto.errors import BrokerConnectionError, ConfigurationError, KafkaError
from aiokproto.runtime.timeouts import apart, timeout
from aiokproto.security.secret import Secret
from aiokproto.security.tls.build import ClientContext, client_context
from aiokproto.security.tls.options import TlsOptions
from aiokproto.security.tls.stores import MAX_SIZE
from aiokproto.security.tls.subject import subject_of

RENEWAL_LIMIT = 1.0
"""Maximum wait (s) for files and functions if there is a context."""

RENEWAL_PAUSE = 10.0
"""Pause (s) after an attempt that took longer than :data:`RENEWAL_LIMIT`."""

logger = logging.getLogger("aiokproto.net")


class TlsContexts(Protocol):
    """Provides contexts for new connections."""

    @property
    def subject(self) -> str | None:
        """The subject of the client's certificate. Empty if there's no certificate, None if it's unknown (yet)."""
        ...

    @property
    def verifies_certificate(self) -> bool:
        """Whether a trusted authority must have signed the broker's certificate."""
        ...

    @property
    def verifies_host(self) -> bool:
        """Whether the broker's certificate must name its host."""
        ...

    async def context(self, threads: Executor | None = None) -> ssl.SSLContext:
        """Return the context for a new connection. Cancelling has no effect on other connections.

        Args:
            threads: The executor that reads files; None for the event loop's default executor.

        Raises:
            ConfigurationError: A file or a password can't be used, and there is no earlier context.
            BrokerConnectionError: A function or a file didn't provide a password. The next attempt may succeed.
        """
        ...


class GivenContext:
    """Returns the context of the option ``ssl_context``."""

    subject = None

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    @property
    def verifies_certificate(self) -> bool:
        # CERT_OPTIONAL counts, too: for a client it's the same as CERT_REQUIRED.
        return self._context.verify_mode is not ssl.CERT_NONE

    @property
    def verifies_host(self) -> bool:
        return self._context.check_hostname

    async def context(self, threads: Executor | None = None) -> ssl.SSLContext:
        return self._context


class _FileState(NamedTuple):
    size: int
    changed: int
    inode: int


class _State(NamedTuple):
    """The files and secrets that a context was made from."""

    files: Mapping[str, _FileState]
    secrets: Mapping[str, str]


class OptionContexts:
    """Creates contexts from options, and a new one whenever a file, a password or a text has changed."""

    def __init__(self, options: TlsOptions) -> None:
        self._options = options
        self._context: ClientContext | None = None
        self._state: _State | None = None
        self._warned = ""
        # If functions or files didn't respond, the time of the next attempt (s, the loop's clock).
        self._pause_until = 0.0
        # Thanks to the lock, concurrent connections read the files only once.
        self._lock = asyncio.Lock()

    @property
    def subject(self) -> str | None:
        if self._context is None:
            return None
        try:
            return subject_of(self._context.certificate) if self._context.certificate else ""
        except ValueError:
            # OpenSSL accepts certificates that subject_of() doesn't.
            return None

    @property
    def verifies_certificate(self) -> bool:
        return True

    @property
    def verifies_host(self) -> bool:
        return self._options.check_hostname

    async def context(self, threads: Executor | None = None) -> ssl.SSLContext:
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._context is not None and loop.time() < self._pause_until:
                return self._context
            try:
                async with timeout(None if self._context is None else RENEWAL_LIMIT):
                    renewed = await self._renewed(threads)
                if renewed is not None:
                    if self._context is not None:
                        logger.info("TLS certificates were renewed: new connections use them")
                    self._context, self._state = renewed
                self._warned = ""
            except asyncio.TimeoutError:
                self._pause_until = loop.time() + RENEWAL_PAUSE
                self._warn(f"reading them took longer than {RENEWAL_LIMIT:g} s")
            except KafkaError as error:
                if self._context is None:
                    raise
                self._warn(str(error))
            assert self._context is not None, "made above, or the error was raised"
            return self._context

    async def _renewed(self, threads: Executor | None) -> tuple[ClientContext, _State] | None:
        secrets = {
            option: await _read_secret(option, secret)
            for option, secret in self._options.secrets.items()
            if not secret.is_file
        }
        return await asyncio.get_running_loop().run_in_executor(threads, _renew, self._options, self._state, secrets)

    def _warn(self, text: str) -> None:
        if text != self._warned:
            logger.warning("new TLS certificates cannot be used, new connections use the earlier ones: %s", text)
            self._warned = text

    def __repr__(self) -> str:
        return "<TLS from options>"


async def _read_secret(option: str, secret: Secret) -> str:
    try:
        return await apart(secret.read(), option)
    except KafkaError:
        raise
    except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
        # The function may have cancelled its own task, which isn't a task of the connection.
        raised = failure(error, option, awaited=True)
        raise BrokerConnectionError(f"{option} cannot be read: {without_text(raised)}") from raised


def _renew(options: TlsOptions, last: _State | None, secrets: Mapping[str, str]) -> tuple[ClientContext, _State] | None:
    """Return a new context and its state, or None if nothing has changed.

    ``secrets`` doesn't include the secrets in files.
    """
    in_files = {option: secret.read_file() for option, secret in options.secrets.items() if secret.is_file}
    secrets = {**secrets, **in_files}
    states = {option: _state(option, path) for option, path in options.files.items()}
    state = _State(states, secrets)
    if state == last:
        return None
    contents = {option: read(option, path) for option, path in options.files.items()}
    return client_context(options, contents, secrets), state


def _state(option: str, path: Path) -> _FileState:
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(option, path, error) from None
    return _FileState(found.st_size, found.st_mtime_ns, found.st_ino)


def read(option: str, path: Path) -> bytes:
    """Return the content of an option's file.

    Raises:
        ConfigurationError: The file can't be read, or is too long.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise _unreadable(option, path, error) from None
    if len(data) > MAX_SIZE:
        raise ConfigurationError(f"{option}={str(path)!r}: it is longer than {MAX_SIZE >> 20} MiB")
    return data


def _unreadable(option: str, path: Path, error: OSError) -> ConfigurationError:
    reason = (error.strerror or type(error).__name__).lower()
    return ConfigurationError(f"{option}={str(path)!r} cannot be read: {reason}")
