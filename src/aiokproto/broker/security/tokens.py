"""Delegation tokens (KIP-48, KIP-373): short-lived credentials of a user for jobs that must not have the user's own
secret.

A token's secret is the HMAC of its id under ``delegation.token.secret.key``: the broker stores no token secrets.
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
"""Most tokens at a time: each costs memory, and a part of the file."""
MAX_OWNED = 100
"""Most tokens of one owner: nobody may take all of them, and any user can create its own."""
MAX_NAMES = 4096
"""Most characters of all principals in one token."""

_LATEST = (1 << 63) - 1


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token. Times are milliseconds since the epoch.

    Attributes:
        token_id: Its id, which is the user name in SCRAM.
        owner: The user that it authenticates.
        requester: The user that created it: the owner, or one with CREATE_TOKENS on the owner (KIP-373).
        renewers: The users besides the owner that can renew and expire it.
        issued: When it was created.
        expires: When it expires unless it is renewed.
        ends: The latest time to which it can be renewed.
    """

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued: int
    expires: int
    ends: int

    def concerns(self, principal: Principal) -> bool:
        """Return whether a principal is its owner, requester or renewer."""
        return principal in (self.owner, self.requester, *self.renewers)

    def has_expired(self, now: int) -> bool:
        """Return whether it has expired."""
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
        """Raise :class:`BrokerError` DELEGATION_TOKEN_AUTH_DISABLED if ``delegation.token.secret.key`` is not set."""
        if not self._secret:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    # ---- requests

    def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], max_lifetime_ms: int
    ) -> DelegationToken:
        """Create a token.

        Args:
            owner: The user that it authenticates.
            requester: The user that requests it.
            renewers: The users besides the owner that can renew it.
            max_lifetime_ms: The longest lifetime with renewals; capped by ``delegation.token.max.lifetime.ms``, which
                also applies to 0 and below.

        Raises:
            BrokerError: DELEGATION_TOKEN_AUTH_DISABLED, INVALID_PRINCIPAL_TYPE; POLICY_VIOLATION: too many tokens, in
                all or of the owner, or principals.
        """
        # The login has only the owner's name. Kafka checks only renewers, so a token for "Group:alice" is a token for
        # "User:alice" there, although the ACLs of "User:alice" did not permit it.
        if any(each.kind != "User" for each in (owner, *renewers)):
            raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE, detail="only users can own and renew a token")
        self.check_enabled()
        names = sum(len(str(each)) for each in (owner, requester, *renewers))
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
        """Extend a token to ``period_ms`` from now; capped by ``delegation.token.expiry.time.ms``, which also applies
        to 0 and below.

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
        """Set a token's expiry to ``period_ms`` from now; below 0 removes it at once.

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
        """Remove expired tokens; returns whether there were some."""
        now = self._now()
        expired = [token for token in self if token.has_expired(now)]
        for token in expired:
            self._remove(token)
        if expired:
            self._file.changed()
        return bool(expired)

    def account(self, token_id: str, mechanism: Mechanism) -> Account | None:
        """Return the SCRAM account of a token, whose password is its base64 secret. None for an unknown token."""
        token = self._tokens.get(token_id)
        if token is None or not self._secret:
            return None
        # Computed on first use: it takes thousands of hashes, and most tokens are used with one mechanism.
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
        """Return the tokens without their secrets, for JSON. They are those of now, whenever they are iterated, and in
        whichever thread."""
        return map(asdict, list(self))

    def load_json(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Load what :meth:`to_json` returned. Raises KeyError, TypeError or ValueError if it is invalid."""
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
