"""The security state that all nodes share, and its only writer: ACLs, SCRAM credentials, delegation tokens, quotas.

It is persisted as ``security.json`` (in Kafka, as records of the metadata log). Each change writes the whole file,
because such changes are rare and small.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from ssl import SSLObject

from aiokproto.broker.clock import Clock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.quotas.client_quotas import ClientQuotas
from aiokproto.broker.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from aiokproto.broker.security.authorizer import Authorizer
from aiokproto.broker.security.aws_msk_iam import AwsMskIamSaslServer
from aiokproto.broker.security.credentials import Deletion, ScramCredentials, Upsertion
from aiokproto.broker.security.jwks import jwks_of
from aiokproto.broker.security.jwt import JwtValidator
from aiokproto.broker.security.oauthbearer import OAuthBearerSaslServer, TokenValidator, unsecured_validator
from aiokproto.broker.security.plain import PlainSaslServer
from aiokproto.broker.security.principal import ANONYMOUS, parse_principal
from aiokproto.broker.security.sasl import SaslAuthenticator
from aiokproto.broker.security.sasl_server import SaslServer
from aiokproto.broker.security.scram import Mechanism, ScramSaslServer
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.security.settings import Security
from aiokproto.broker.security.tls import principal_of
from aiokproto.broker.security.tokens import DelegationTokens
from aiokproto.errors import BrokerError, ConfigurationError


class SecurityState:
    """Authenticates and authorizes clients, and persists what these decisions are based on.

    Attributes:
        authorizer: Decides authorizations; None if ``authorizer.class.name`` is not set: everything is allowed.
        credentials: The SCRAM credentials.
        tokens: The delegation tokens.
        protocol: The security protocol of the listeners.
        client_quotas: The quotas.
    """

    def __init__(self, root: Path, security: Security, options: BrokerOptions, clock: Clock) -> None:
        """Load ``security.json`` from ``root`` if it exists.

        Raises:
            ConfigurationError: An option is invalid, or the file is.
        """
        self._acls = _authorizer(options)
        self.authorizer = self._acls if options.value("authorizer.class.name") else None
        self.credentials = ScramCredentials(security.users if security.sasl else {})
        self.tokens = DelegationTokens(options, clock.wall, self._save)
        self.client_quotas = ClientQuotas()
        self.protocol = security.protocol
        self._sasl = security.sasl
        self._clock = clock
        self._max_reauth_ms = options.number("connections.max.reauth.ms")
        self._jwks = jwks_of(options) if security.sasl and security.token_validator is None else None
        self._mechanisms = self._enabled(security, options)
        self._path = root / "security.json"
        if self._path.exists():
            self._load()

    async def start(self) -> None:
        """Load what validates tokens. Cancelling closes the connection to the endpoint.

        Raises:
            ConfigurationError: It cannot be loaded.
        """
        if self._jwks is not None:
            await self._jwks.load()

    def refresh_keys(self) -> None:
        """Load the keys that validate tokens again, in the background."""
        if self._jwks is not None:
            self._jwks.refresh()

    def close(self) -> None:
        """Stop loading keys."""
        if self._jwks is not None:
            self._jwks.close()

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

    def add_acls(self, acls: Iterable[Acl]) -> None:
        """Add ACLs."""
        self._acls.add(acls)
        self._save()

    def remove_acls(self, acls: Sequence[Acl]) -> None:
        """Remove existing ACLs."""
        self._acls.remove(acls)
        self._save()

    def alter_credentials(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, BrokerError | None]:
        """Change SCRAM credentials; see :meth:`ScramCredentials.alter`."""
        results = self.credentials.alter(deletions, upsertions)
        self._save()
        return results

    def alter_quotas(
        self, entity: Sequence[tuple[str, str | None]], changes: Sequence[tuple[str, float | None]], *, dry_run: bool
    ) -> None:
        """Change quotas; see :meth:`ClientQuotas.alter`."""
        self.client_quotas.alter(entity, changes, dry_run=dry_run)
        if not dry_run:
            self._save()

    # ---- inside

    def _validator(self, security: Security, options: BrokerOptions) -> TokenValidator:
        if security.token_validator is not None:
            return security.token_validator
        if self._jwks is None:
            return unsecured_validator(self._clock.wall)
        return JwtValidator(self._jwks.find, options, self._clock.wall)

    def _enabled(self, security: Security, options: BrokerOptions) -> Mapping[str, Callable[[], SaslServer]]:
        names = str(options.value("sasl.enabled.mechanisms")).split(",")
        validate, access_keys = self._validator(security, options), security.aws_access_keys
        known: dict[str, Callable[[], SaslServer]] = {
            # Not self.credentials: PLAIN needs the password itself, which AlterUserScramCredentials does not carry.
            "PLAIN": lambda: PlainSaslServer(security.users),
            "SCRAM-SHA-256": lambda: self._scram(Mechanism.SCRAM_SHA_256),
            "SCRAM-SHA-512": lambda: self._scram(Mechanism.SCRAM_SHA_512),
            "OAUTHBEARER": lambda: OAuthBearerSaslServer(validate),
            "AWS_MSK_IAM": lambda: AwsMskIamSaslServer(access_keys, self._clock.wall),
        }
        return {name: known[name] for name in names}

    def _scram(self, mechanism: Mechanism) -> ScramSaslServer:
        known = self.credentials
        return ScramSaslServer(mechanism, known.find, find_token=self.tokens.account, salts=known.salts)

    def _save(self) -> None:
        document = {
            "version": 1,
            "acls": [_written(acl) for acl in self._acls],
            "scram_credentials": self.credentials.to_json(),
            "scram_secret": self.credentials.salts.secret.hex(),
            "client_quotas": self.client_quotas.to_json(),
            "delegation_tokens": self.tokens.to_json(),
        }
        # Written beside and renamed: a crash leaves the old file or the new one.
        temporary = self._path.with_suffix(".tmp")
        # One that a crash has left would keep the mode that it has.
        temporary.unlink(missing_ok=True)
        # Only its owner can read it, from its creation on: SCRAM credentials allow offline guessing of passwords.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(document, file, indent=1)
        temporary.replace(self._path)

    def _load(self) -> None:
        try:
            document = json.loads(self._path.read_text())
            if document["version"] != 1:
                raise ValueError(f"version {document['version']} is not supported, expected 1")
            self.credentials.load_json(document["scram_credentials"], document.get("scram_secret", ""))
            self.client_quotas.load_json(document["client_quotas"])
            # Files written before delegation tokens were supported have no such key.
            self.tokens.load_json(document.get("delegation_tokens", []))
            self._acls.add(_read(entry) for entry in document["acls"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"data_dir: {self._path} cannot be read: {error}") from None


def _authorizer(options: BrokerOptions) -> Authorizer:
    users = [user.strip() for user in str(options.value("super.users")).split(";") if user.strip()]
    for user in users:
        try:
            parse_principal(user)
        except ValueError as error:
            raise ConfigurationError(f"super.users: {error}") from None
    return Authorizer(users, allow_if_no_acl=bool(options.value("allow.everyone.if.no.acl.found")))


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
