"""Delegation tokens (KIP-48, KIP-373): short-lived user credentials, for jobs that must not have the user's own secret.

A token's secret is the HMAC of its id, keyed with ``delegation.token.secret.key``, so the broker doesn't store token
secrets.
"""

from __future__ import annotations

import base64
import hmac
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.principal import Principal
from aiokproto.broker.security.sasl_server import AuthenticatedUser
from aiokproto.broker.security.scram import Account, Credential, Mechanism, credential_of
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current

if TYPE_CHECKING:
    from aiokproto.broker.security.security_state import SecurityFile

MAX_TOKENS = 10_000
"""Maximum number of tokens at a time. Each token takes memory, and space in the file."""
MAX_OWNED = 100
"""Maximum number of tokens per owner. Any user can create tokens for itself, but must not use up all of them."""
MAX_NAMES = 4096
"""Maximum total length of all principals in a token, in characters."""

_LATEST = (1 << 63) - 1


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token. Times are in milliseconds since the epoch.

    Attributes:
        token_id: The token's id, which is the user name in SCRAM.
        owner: The user that the token authenticates.
        requester: The user that created the token: the owner, or a user with CREATE_TOKENS on the owner (KIP-373).
        renewers: The users besides the owner that can renew and expire the token.
        issued: When the token was created.
        expires: When the token expires unless it's renewed.
        ends: The latest time that the token can be renewed to.
    """

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued: int
    expires: int
    ends: int

    def concerns(self, principal: Principal) -> bool:
        """Return whether a principal is the token's owner, requester or renewer."""
        return principal in (self.owner, self.requester, *self.renewers)

    def has_expired(self, now: int) -> bool:
        """Return whether the token has expired."""
        return min(self.expires, self.ends) < now


class DelegationTokens:
    """All delegation tokens of a cluster."""

    def __init__(self, options: BrokerOptions, now: Callable[[], int], file: SecurityFile) -> None:
        """Start without tokens.

        Args:
            options: The broker's options (``delegation.token.*``).
            now: Returns the time in milliseconds since the epoch.
            file: The file that stores the tokens.
        """
        self._secret = str(options.value("delegation.token.secret.key")).encode()
        self._max_lifetime = options.number("delegation.token.max.lifetime.ms")
        self._renewal = options.number("delegation.token.expiry.time.ms")
        self._now = now
        self._file = file
        self._tokens: dict[str, DelegationToken] = {}
        self._owned: Counter[Principal] = Counter()
        self._by_hmac: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, Mechanism], Credential] = {}

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(self._tokens.values())

    def hmac(self, token: DelegationToken) -> bytes:
        """Return the token's secret, computed from the broker's secret key."""
        return hmac.digest(self._secret, token.token_id.encode(), "sha512")

    def check_enabled(self) -> None:
        """Raise :class:`BrokerError` DELEGATION_TOKEN_AUTH_DISABLED if ``delegation.token.secret.key`` isn't set."""
        if not self._secret:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    # ---- requests

    def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], max_lifetime_ms: int
    ) -> DelegationToken:
        """Create a token.

        Args:
            owner: The user that the token authenticates.
            requester: The user that requests the token.
            renewers: The users besides the owner that can renew the token.
            max_lifetime_ms: The maximum lifetime, including renewals. Capped by ``delegation.token.max.lifetime.ms``,
                which is also used if this is 0 or less.

        Raises:
            BrokerError: DELEGATION_TOKEN_AUTH_DISABLED; INVALID_PRINCIPAL_TYPE; POLICY_VIOLATION if there are too many
                tokens in total, too many tokens of the owner, or too many principals.
        """
        # Logins use only the owner's name. Kafka checks only the renewers, so there a token for "Group:alice" works as
        # a token for "User:alice", even if nobody is permitted to create tokens for "User:alice".
        if any(principal.kind != "User" for principal in (owner, *renewers)):
            raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE, detail="only users can own and renew a token")
        self.check_enabled()
        names = sum(len(str(principal)) for principal in (owner, requester, *renewers))
        if self._owned[owner] >= MAX_OWNED or len(self._tokens) >= MAX_TOKENS or names > MAX_NAMES:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION,
                detail=f"more than {MAX_OWNED} tokens of an owner, {MAX_TOKENS} in all, or {MAX_NAMES} characters"
                " in one",
            )
        now = self._now()
        ends = min(now + _limited(max_lifetime_ms, self._max_lifetime), _LATEST)
        expires = min(now + self._renewal, ends)
        token = DelegationToken(str(current().uuid()), owner, requester, tuple(renewers), now, expires, ends)
        self._put(token)
        self._file.changed()
        return token

    def renew(self, secret: bytes, period_ms: int, principal: Principal) -> int:
        """Extend a token to ``period_ms`` from now. ``delegation.token.expiry.time.ms`` caps the period, and is also
        used if ``period_ms`` is 0 or less.

        Returns:
            The new expiry time.

        Raises:
            BrokerError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, or
                DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        token = self._find(secret)
        self._check_alive(token)
        _check_renewer(token, principal)
        return self._set_expiry(token, self._now() + _limited(period_ms, self._renewal))

    def expire(self, secret: bytes, period_ms: int, principal: Principal) -> int:
        """Set a token's expiry to ``period_ms`` from now. A negative period removes the token immediately.

        Returns:
            The new expiry time.

        Raises:
            BrokerError: See :meth:`renew`.
        """
        token = self._find(secret)
        _check_renewer(token, principal)
        now = self._now()
        if period_ms >= 0:
            self._check_alive(token)
            return self._set_expiry(token, now + period_ms)
        self._remove(token)
        self._file.changed()
        return now

    def sweep(self) -> bool:
        """Remove expired tokens, and return whether there were any."""
        now = self._now()
        expired = [token for token in self if token.has_expired(now)]
        for token in expired:
            self._remove(token)
        if expired:
            self._file.changed()
        return bool(expired)

    def account(self, token_id: str, mechanism: Mechanism) -> Account | None:
        """Return the SCRAM account of a token, whose password is its base64 secret, or None if the token is unknown."""
        token = self._tokens.get(token_id)
        if token is None or not self._secret:
            return None
        # Compute the credential on first use: that takes thousands of hashes, and most tokens are used with only one
        # mechanism.
        known = self._credentials.get((token_id, mechanism))
        if known is None:
            known = credential_of(mechanism, base64.b64encode(self.hmac(token)).decode())
            self._credentials[token_id, mechanism] = known
        return Account(known, AuthenticatedUser(token.owner.name, token.expires, by_token=True))

    # ---- inside

    def _find(self, secret: bytes) -> DelegationToken:
        self.check_enabled()
        token_id = self._by_hmac.get(secret)
        if token_id is None:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return self._tokens[token_id]

    def _check_alive(self, token: DelegationToken) -> None:
        if token.has_expired(self._now()):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)

    def _set_expiry(self, token: DelegationToken, expires: int) -> int:
        changed = replace(token, expires=min(expires, token.ends))
        self._put(changed)
        self._file.changed()
        return changed.expires

    def _put(self, token: DelegationToken) -> None:
        if token.token_id not in self._tokens:
            self._owned[token.owner] += 1
        self._tokens[token.token_id] = token
        self._by_hmac[self.hmac(token)] = token.token_id

    def _remove(self, token: DelegationToken) -> None:
        del self._tokens[token.token_id], self._by_hmac[self.hmac(token)]
        self._owned[token.owner] -= 1
        if not self._owned[token.owner]:
            del self._owned[token.owner]
        for mechanism in Mechanism:
            self._credentials.pop((token.token_id, mechanism), None)

    # ---- persistence

    def to_json(self) -> Iterator[dict[str, Any]]:
        """Return a snapshot of the tokens without their secrets, for JSON. It can be iterated later, in any thread."""
        return map(asdict, list(self))

    def load_json(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Load what :meth:`to_json` returned. Raises KeyError, TypeError or ValueError if that is invalid."""
        for entry in entries:
            owner, requester, *renewers = (
                Principal(str(kind), str(name))
                for kind, name in (entry["owner"], entry["requester"], *entry["renewers"])
            )
            times = (int(entry[key]) for key in ("issued", "expires", "ends"))
            self._put(DelegationToken(str(entry["token_id"]), owner, requester, tuple(renewers), *times))


def _limited(requested_ms: int, limit_ms: int) -> int:
    return min(requested_ms, limit_ms) if requested_ms > 0 else limit_ms


def _check_renewer(token: DelegationToken, principal: Principal) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
