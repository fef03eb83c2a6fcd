"""The SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from aiokproto.broker.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    Credential,
    Mechanism,
    Salts,
    credential,
    credential_of,
)
from aiokproto.codec.steps import Steps
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current

Key = tuple[str, Mechanism]

log = logging.getLogger("aiokproto.broker")


class Deletion(NamedTuple):
    """The deletion of a credential."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential to add or to replace."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class ScramCredentials:
    """SCRAM credentials of two kinds: derived from the users in :class:`Security`, or set with
    AlterUserScramCredentials.

    Only the second kind is persisted: the first is derived from the password at every start. Requests can't change the
    first kind: PLAIN needs the password itself and would still accept the old one, and a deleted credential would be
    back after a restart.

    Attributes:
        salts: The salts of the users in :class:`Security`, and of users that don't exist.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._given = passwords
        self._make(Salts(current().secrets.randbytes(32)))

    def _make(self, salts: Salts) -> None:
        self.salts = salts
        self._all = {
            (user, mechanism): credential_of(mechanism, password, salts.salt(user, mechanism))
            for user, password in self._given.items()
            for mechanism in Mechanism
        }

    def find(self, user: str, mechanism: Mechanism) -> Credential | None:
        """Return a user's credential, or None."""
        return self._all.get((user, mechanism))

    def of(self, user: str) -> dict[Mechanism, Credential]:
        """Return all credentials of a user."""
        found = {mechanism: self._all.get((user, mechanism)) for mechanism in Mechanism}
        return {mechanism: known for mechanism, known in found.items() if known is not None}

    @property
    def users(self) -> list[str]:
        """The users that have credentials."""
        return list(dict.fromkeys(user for user, _ in self._all))

    def altering(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> Steps[dict[str, BrokerError | None]]:
        """Delete and upsert credentials, with one step per user.

        Returns:
            For each user, None, or the reason why the user's credentials weren't changed.
        """
        changes: dict[str, list[Deletion | Upsertion]] = {}
        all_changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
        for change in all_changes:
            changes.setdefault(change.user, []).append(change)
        results: dict[str, BrokerError | None] = {}
        for user, of_user in changes.items():
            # As in Kafka's ScramControlManager, two changes to the same user are both rejected: the order within a
            # request has no meaning.
            error = results[user] = self._check(of_user[0]) if len(of_user) == 1 else _twice()
            if error is None:
                self._apply(of_user[0])
            yield
        return results

    def _check(self, change: Deletion | Upsertion) -> BrokerError | None:
        if not change.user:
            return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, detail="Username must not be empty")
        if change.mechanism not in Mechanism.__members__.values():
            return BrokerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, detail="Unknown SCRAM mechanism")
        if change.user in self._given:
            text = "The user and its password are in the configuration of the broker: change them there"
            return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, detail=text)
        if isinstance(change, Deletion):
            if (change.user, Mechanism(change.mechanism)) not in self._all:
                text = "Attempt to delete a user credential that does not exist"
                return BrokerError(ErrorCode.RESOURCE_NOT_FOUND, detail=text)
            return None
        if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
            which = "few" if change.iterations < MIN_ITERATIONS else "many"
            return BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, detail=f"Too {which} iterations")
        return None

    def _apply(self, change: Deletion | Upsertion) -> None:
        mechanism = Mechanism(change.mechanism)
        if isinstance(change, Deletion):
            del self._all[change.user, mechanism]
        else:
            made = credential(mechanism, change.salt, change.iterations, change.salted_password)
            self._all[change.user, mechanism] = made

    # ---- persistence

    def to_json(self) -> Iterator[dict[str, str | int]]:
        """Return a snapshot of the credentials set with AlterUserScramCredentials, for JSON. It can be iterated later,
        in any thread."""
        return (
            {
                "user": user,
                "mechanism": mechanism.sasl_name,
                "iterations": known.iterations,
                "salt": known.salt.hex(),
                "stored_key": known.stored_key.hex(),
                "server_key": known.server_key.hex(),
            }
            for (user, mechanism), known in list(self._all.items())
            if user not in self._given
        )

    def load_json(self, entries: Sequence[Mapping[str, str | int]], secret: str = "") -> None:
        """Load what :meth:`to_json` returned, and the secret of the salts. Skips users that are now in
        :class:`Security`. Raises KeyError or ValueError if the data is invalid."""
        if secret:
            # A restart would otherwise change the salts of only those users that don't exist, which would reveal them.
            self._make(Salts(bytes.fromhex(secret)))
        names = {mechanism.sasl_name: mechanism for mechanism in Mechanism}
        for entry in entries:
            salt, stored, server = (bytes.fromhex(str(entry[key])) for key in ("salt", "stored_key", "server_key"))
            known = Credential(salt, int(entry["iterations"]), stored, server)
            user, mechanism = str(entry["user"]), names[str(entry["mechanism"])]
            if user in self._given:
                text = "users: the password of %r replaces the %s credential in data_dir"
                log.warning(text, user, mechanism.sasl_name)
            else:
                self._all[user, mechanism] = known


def _twice() -> BrokerError:
    text = "A user credential cannot be altered twice in the same request"
    return BrokerError(ErrorCode.DUPLICATE_RESOURCE, detail=text)
