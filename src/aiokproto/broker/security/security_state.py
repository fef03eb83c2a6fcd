"""The security state that all nodes share, and its only writer: ACLs, SCRAM credentials, delegation tokens, quotas.

It is persisted as ``security.json`` (in Kafka, as records of the metadata log). Changes are rare. After a change, a
thread writes the whole file. Changes made during a write share the next write. Each request that has changed something
waits for its write.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from ssl import SSLObject

from aiokproto.broker.clock import Clock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.log.private_files import write_private
from aiokproto.broker.opening import OpeningThread
from aiokproto.broker.quotas.client_quotas import ClientQuotas
from aiokproto.broker.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from aiokproto.broker.security.authorizer import Authorizer
from aiokproto.broker.security.aws_msk_iam import AwsMskIamSaslServer
from aiokproto.broker.security.credentials import Deletion, ScramCredentials, Upsertion
from aiokproto.broker.security.effects import super_users
from aiokproto.broker.security.jwks import jwks_of
from aiokproto.broker.security.jwt import JwtValidator
from aiokproto.broker.security.mechanisms import SecurityConfig
from aiokproto.broker.security.oauthbearer import OAuthBearerSaslServer, TokenValidator, unsecured_validator
from aiokproto.broker.security.plain import PlainSaslServer
from aiokproto.broker.security.principal import ANONYMOUS
from aiokproto.broker.security.sasl import SaslAuthenticator
from aiokproto.broker.security.sasl_server import SaslServer
from aiokproto.broker.security.scram import Mechanism, ScramSaslServer
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.security.settings import Security
from aiokproto.broker.security.tls import principal_of
from aiokproto.broker.security.tokens import DelegationTokens
from aiokproto.codec.steps import Steps
from aiokproto.errors import BrokerError, ConfigurationError
from aiokproto.runtime import create_task

log = logging.getLogger("aiokproto.broker")


class SecurityFile:
    """Writes the whole file after changes, one write at a time. Changes made during a write go into the next write.

    Code that has changed something awaits :meth:`saved` before acknowledging the change.

    Args:
        state: The state to store.
        thread: The thread that writes the file.
        path: The file.
    """

    def __init__(self, state: SecurityState, thread: OpeningThread, path: Path) -> None:
        self._state = state
        self._thread = thread
        self._path = path
        self._changes = self._saved = 0
        self._writing: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Note a change."""
        self._changes += 1

    async def saved(self) -> None:
        """Wait until all changes made so far are in the file. Cancelling doesn't stop a write that has started.

        Raises:
            OSError: The file can't be written. The next call tries again.
        """
        wanted = self._changes
        while self._saved < wanted:
            if self._writing is None:
                self._writing = create_task(self._write())
                self._writing.add_done_callback(self._ended)
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        changes, text = self._changes, self._state.snapshot()
        await self._thread.run(lambda: replace_file(self._path, text()))
        self._saved = changes

    def _ended(self, writing: asyncio.Task[None]) -> None:
        self._writing = None
        # Retrieve the exception here, because all tasks that were waiting for the write may have been cancelled.
        if not writing.cancelled():
            writing.exception()


def replace_file(path: Path, text: str) -> None:
    """Replace a file that only its owner can read. A crash leaves the old file or the new one."""
    # Write the text to a file next to it, then rename that file.
    temporary = path.with_suffix(".tmp")
    # A file left over from a crash would keep its mode.
    temporary.unlink(missing_ok=True)
    # The mode matters: SCRAM credentials allow passwords to be guessed offline.
    write_private(temporary, text)
    temporary.replace(path)


class SecurityState:
    """Authenticates and authorizes clients, and persists the state that these decisions are based on.

    Attributes:
        authorizer: Decides authorizations. None if ``authorizer.class.name`` isn't set, in which case everything is
            allowed.
        credentials: The SCRAM credentials.
        tokens: The delegation tokens.
        protocol: The security protocol of the listeners.
        following: Values of options that weren't given but follow from the arguments.
        client_quotas: The quotas.
    """

    def __init__(
        self, root: Path, security: Security, options: BrokerOptions, clock: Clock, thread: OpeningThread
    ) -> None:
        """Load ``security.json`` from ``root`` if it exists.

        Args:
            root: The data directory.
            security: The protocol and the secrets.
            options: The brokers' options.
            clock: The brokers' clock.
            thread: The thread that writes the file.

        Raises:
            ConfigurationError: An option or the file is invalid.
        """
        config = SecurityConfig(security, options)
        allow = bool(options.value("allow.everyone.if.no.acl.found"))
        self._acls = Authorizer(super_users(config), allow_if_no_acl=allow)
        self.authorizer = self._acls if options.value("authorizer.class.name") else None
        self.credentials = ScramCredentials(security.users if security.sasl else {})
        self._path = root / "security.json"
        self._file = SecurityFile(self, thread, self._path)
        self.tokens = DelegationTokens(options, clock.wall, self._file)
        self.client_quotas = ClientQuotas()
        self.protocol = security.protocol
        self.following = config.following
        self._sasl = security.sasl
        self._clock = clock
        self._max_reauth_ms = options.number("connections.max.reauth.ms")
        self._jwks = jwks_of(options, allow_http=security.sasl_oauth_allow_http)
        self._mechanisms = self._enabled(config)
        if self._path.exists():
            self._load()

    async def start(self) -> None:
        """Load the keys that validate tokens. Cancelling closes the connection to the endpoint.

        Raises:
            ConfigurationError: The keys can't be loaded.
        """
        if self._jwks is not None:
            await self._jwks.load()

    def refresh_keys(self) -> None:
        """Reload the keys that validate tokens, in the background."""
        if self._jwks is not None:
            self._jwks.refresh()

    async def close(self) -> None:
        """Stop loading keys, and write any changes that no request has waited for."""
        if self._jwks is not None:
            self._jwks.close()
        await self._save_behind()

    def connect(self, host: str, tls: SSLObject | None) -> ClientSession:
        """Create the session of a new connection."""
        if not self._sasl:
            return ClientSession(host, principal_of(tls), None)
        return ClientSession(host, ANONYMOUS, SaslAuthenticator(self._mechanisms, self._max_reauth_ms, self._clock))

    def is_authorized(
        self, connection: ClientSession, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether a client is authorized for an operation on a resource."""
        if self.authorizer is None:
            return True
        return self.authorizer.is_authorized(str(connection.principal), connection.host, operation, resource_type, name)

    def is_authorized_for_any(
        self, connection: ClientSession, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether a client is authorized for an operation on any resource of a type."""
        if self.authorizer is None:
            return True
        return self.authorizer.is_authorized_for_any(
            str(connection.principal), connection.host, operation, resource_type
        )

    # ---- persisted changes

    async def saved(self) -> None:
        """Wait until all changes made so far are in the file. Every handler that has changed something awaits this.

        Raises:
            OSError: The file can't be written.
        """
        await self._file.saved()

    def sweep(self) -> None:
        """Remove expired delegation tokens."""
        if self.tokens.sweep():
            create_task(self._save_behind())

    def add_acls(self, acls: Iterable[Acl]) -> None:
        """Add ACLs."""
        self._acls.add(acls)
        self._file.changed()

    def remove_acls(self, acls: Sequence[Acl]) -> None:
        """Remove existing ACLs."""
        self._acls.remove(acls)
        self._file.changed()

    def altering_credentials(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> Steps[dict[str, BrokerError | None]]:
        """Change SCRAM credentials; see :meth:`ScramCredentials.altering`."""
        try:
            return (yield from self.credentials.altering(deletions, upsertions))
        finally:
            self._file.changed()

    def alter_quotas(
        self, entity: Sequence[tuple[str, str | None]], changes: Sequence[tuple[str, float | None]], *, dry_run: bool
    ) -> None:
        """Change quotas; see :meth:`ClientQuotas.alter`."""
        self.client_quotas.alter(entity, changes, dry_run=dry_run)
        if not dry_run:
            self._file.changed()

    # ---- inside

    def _validator(self, security: Security, options: BrokerOptions) -> TokenValidator | None:
        if self._jwks is not None:
            return JwtValidator(self._jwks, options, self._clock.wall)
        if security.unsecured_tokens:
            return unsecured_validator(self._clock.wall)
        return security.token_validator

    def _enabled(self, config: SecurityConfig) -> Mapping[str, Callable[[], SaslServer]]:
        security = config.security
        validate, access_keys = self._validator(security, config.options), security.aws_access_keys
        known: dict[str, Callable[[], SaslServer]] = {
            # PLAIN can't use self.credentials: it needs the password itself, which AlterUserScramCredentials doesn't
            # contain.
            "PLAIN": lambda: PlainSaslServer(security.users),
            "SCRAM-SHA-256": lambda: ScramSaslServer(Mechanism.SCRAM_SHA_256, self.credentials, self.tokens),
            "SCRAM-SHA-512": lambda: ScramSaslServer(Mechanism.SCRAM_SHA_512, self.credentials, self.tokens),
            "AWS_MSK_IAM": lambda: AwsMskIamSaslServer(access_keys, self._clock.wall),
        }
        if validate is not None:
            known["OAUTHBEARER"] = partial(OAuthBearerSaslServer, validate)
        return {name: known[name] for name in config.mechanisms}

    async def _save_behind(self) -> None:
        try:
            await self._file.saved()
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)

    def snapshot(self) -> Callable[[], str]:
        """Take a snapshot of the current state. Return a function that turns it into the text of the file, in any
        thread."""
        acls = list(self._acls)
        secret = self.credentials.salts.secret
        credentials, quotas, tokens = self.credentials.to_json(), self.client_quotas.to_json(), self.tokens.to_json()

        def text() -> str:
            document = {
                "version": 1,
                "acls": [_written(acl) for acl in acls],
                "scram_credentials": list(credentials),
                "scram_secret": secret.hex(),
                "client_quotas": list(quotas),
                "delegation_tokens": list(tokens),
            }
            return json.dumps(document, indent=1)

        return text

    def _load(self) -> None:
        try:
            document = json.loads(self._path.read_text())
            if document["version"] != 1:
                raise ValueError(f"version {document['version']} is not supported, expected 1")
            self.credentials.load_json(document["scram_credentials"], document.get("scram_secret", ""))
            self.client_quotas.load_json(document["client_quotas"])
            # Files written before delegation tokens were supported don't contain this key.
            self.tokens.load_json(document.get("delegation_tokens", []))
            self._acls.add(_read(entry) for entry in document["acls"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"data_dir: {self._path} cannot be read: {error}") from None


def _written(acl: Acl) -> list[str]:
    return [part.name if not isinstance(part, str) else part for part in acl]


def _read(entry: Sequence[str]) -> Acl:
    resource_type, name, pattern_type, principal, host, operation, permission = entry
    return Acl(
        ResourceType[resource_type],
        name,
        PatternType[pattern_type],
        principal,
        host,
        Operation[operation],
        Permission[permission],
    )
