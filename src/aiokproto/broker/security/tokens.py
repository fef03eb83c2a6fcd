"""Delegation tokens (KIP-48, KIP-373): secrets that stand for a user for a while, so that jobs need not have his."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.principal import Principal
from aiokproto.broker.security.sasl_server import AuthenticatedUser
from aiokproto.broker.security.scram import Account, Credential, Mechanism, credential_of
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current

MAX_TOKENS = 10_000
"""Most tokens that there are at a time: each costs memory, and room in the file."""
MAX_NAMES = 4096
"""Most characters of all the principals in one of them."""

_LATEST = (1 << 63) - 1


@dataclass(frozen=True)
class DelegationToken:
    """A token. Times in milliseconds since the epoch.

    Attributes:
        token_id: Its name, with which its bearer logs in.
        owner: Whom it stands for.
        requester: Who asked for it; the owner, or somebody who may act so for him.
        renewers: Who may renew and end it besides the owner.
        issued: When it was made.
        expires: When it ceases to be good, unless it is renewed.
        ends: Until when it can be renewed.
    """

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued: int
    expires: int
    ends: int

    def concerns(self, principal: Principal) -> bool:
        """Whether it is somebody's: he owns it, has asked for it, or may renew it."""
        return principal in (self.owner, self.requester, *self.renewers)

    def has_expired(self, now: int) -> bool:
        """Whether it is no longer good."""
        return min(self.expires, self.ends) < now


class DelegationTokens:
    """The tokens of a cluster."""

    def __init__(self, options: BrokerOptions, now: Callable[[], int], changed: Callable[[], None]) -> None:
        """Begin without any.

        Args:
            options: The broker's options, ``delegation.token.*`` of them.
            now: Gives the time, in milliseconds since the epoch.
            changed: Called when there is something new to be kept.
        """
        self._secret = str(options.value("delegation.token.secret.key")).encode()
        self._max_lifetime = options.number("delegation.token.max.lifetime.ms")
        self._renewal = options.number("delegation.token.expiry.time.ms")
        self._now = now
        self._changed = changed
        self._tokens: dict[str, DelegationToken] = {}
        self._by_hmac: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, Mechanism], Credential] = {}

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(self._tokens.values())

    def hmac(self, token: DelegationToken) -> bytes:
        """The token's secret, which the broker can always make again from its own."""
        return hmac.digest(self._secret, token.token_id.encode(), "sha512")

    def check_enabled(self) -> None:
        """Raise :class:`BrokerError` DELEGATION_TOKEN_AUTH_DISABLED if ``delegation.token.secret.key`` is not given."""
        if not self._secret:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    # ---- what clients ask for

    def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], max_lifetime_ms: int
    ) -> DelegationToken:
        """Make a token.

        Args:
            owner: Whom it shall stand for.
            requester: Who asks for it.
            renewers: Who may renew it besides the owner.
            max_lifetime_ms: How long it can be kept alive; 0 or less, or more than the broker's limit: that.

        Raises:
            BrokerError: DELEGATION_TOKEN_AUTH_DISABLED, INVALID_PRINCIPAL_TYPE; POLICY_VIOLATION: there are too many.
        """
        if any(renewer.kind != "User" for renewer in renewers):
            raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE, detail="only users can renew a token")
        self.check_enabled()
        names = sum(len(str(each)) for each in (owner, requester, *renewers))
        if len(self._tokens) >= MAX_TOKENS or names > MAX_NAMES:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION, detail=f"more than {MAX_TOKENS} tokens, or {MAX_NAMES} characters in one"
            )
        now = self._now()
        ends = min(now + _limited(max_lifetime_ms, self._max_lifetime), _LATEST)
        expires = min(now + self._renewal, ends)
        token = DelegationToken(str(current().uuid()), owner, requester, tuple(renewers), now, expires, ends)
        self._put(token)
        self._changed()
        return token

    def renew(self, secret: bytes, period_ms: int, principal: Principal) -> int:
        """Have a token live on for a while from now; 0 or less, or more than the broker's limit: for as long as that.

        Returns:
            When it expires now.

        Raises:
            BrokerError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, or
                DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        token = self._find(secret)
        self._check_alive(token)
        _check_renewer(token, principal)
        return self._set_expiry(token, self._now() + _limited(period_ms, self._renewal))

    def expire(self, secret: bytes, period_ms: int, principal: Principal) -> int:
        """Have a token expire a while from now; less than 0: at once.

        Returns:
            When it expires now.

        Raises:
            BrokerError: As :meth:`renew`.
        """
        token = self._find(secret)
        _check_renewer(token, principal)
        now = self._now()
        if period_ms >= 0:
            self._check_alive(token)
            return self._set_expiry(token, now + period_ms)
        self._remove(token)
        self._changed()
        return now

    def sweep(self) -> None:
        """Forget the tokens that have expired."""
        now = self._now()
        expired = [token for token in self if token.has_expired(now)]
        for token in expired:
            self._remove(token)
        if expired:
            self._changed()

    def account(self, token_id: str, mechanism: Mechanism) -> Account | None:
        """What logs in with a token: its secret in base64 is the password. None if there is no such token."""
        token = self._tokens.get(token_id)
        if token is None or not self._secret:
            return None
        # Not made before it is asked for: it takes thousands of hashes, and few tokens are used with both mechanisms.
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
        self._changed()
        return changed.expires

    def _put(self, token: DelegationToken) -> None:
        self._tokens[token.token_id] = token
        self._by_hmac[self.hmac(token)] = token.token_id

    def _remove(self, token: DelegationToken) -> None:
        del self._tokens[token.token_id], self._by_hmac[self.hmac(token)]
        for mechanism in Mechanism:
            self._credentials.pop((token.token_id, mechanism), None)

    # ---- on disk

    def to_json(self) -> list[dict[str, Any]]:
        """The tokens, for JSON; without their secrets."""
        return [asdict(token) for token in self]

    def load_json(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Take over what :meth:`to_json` gave. Raises KeyError, TypeError or ValueError if it is something else."""
        for entry in entries:
            owner, requester, *renewers = (
                Principal(str(kind), str(name))
                for kind, name in (entry["owner"], entry["requester"], *entry["renewers"])
            )
            times = (int(entry[key]) for key in ("issued", "expires", "ends"))
            self._put(DelegationToken(str(entry["token_id"]), owner, requester, tuple(renewers), *times))


def _limited(asked_ms: int, most_ms: int) -> int:
    return min(asked_ms, most_ms) if asked_ms > 0 else most_ms


def _check_renewer(token: DelegationToken, principal: Principal) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
