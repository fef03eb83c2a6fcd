"""The records of ``__cluster_metadata`` about users: ACLs, SCRAM credentials, delegation tokens (KIP-500).

Also contains the principal that a broker forwards to the controller (KIP-590).
"""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int8, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class AccessControlEntryRecord(Payload, versions="0", flexible="0+"):
    """An ACL was created."""

    id: uuid = ZERO_UUID
    """Id of the ACL, chosen by the controller."""
    resource_type: int8 = 0
    """Kind of resource: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user."""
    resource_name: string = ""
    """Name of the resource, or its prefix."""
    pattern_type: int8 = 0
    """3: literal; 4: prefixed."""
    principal: string = ""
    """Principal, such as `User:alice`; `User:*`: everybody."""
    host: string = ""
    """Address that the ACL applies to; `*`: every address."""
    operation: int8 = 0
    """2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 describe configs, 11
    alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two phase commit."""
    permission_type: int8 = 0
    """2: deny; 3: allow."""


class RemoveAccessControlEntryRecord(Payload, versions="0", flexible="0+"):
    """An ACL was deleted."""

    id: uuid = ZERO_UUID
    """Id of the ACL."""


class AccessControlRecord(Payload, versions="0", flexible="0+"):
    """An ACL without an id. Replaced by `AccessControlEntryRecord`."""

    resource_type: int8 = 0
    """Kind of resource, as in `AccessControlEntryRecord`."""
    resource_name: string | None = ""
    """Name of the resource, or its prefix; null: none."""
    pattern_type: int8 = 0
    """3: literal; 4: prefixed."""
    principal: string = ""
    """Principal, such as `User:alice`; `User:*`: everybody."""
    host: string = ""
    """Address that the ACL applies to; `*`: every address."""
    operation: int8 = 0
    """Operation, as in `AccessControlEntryRecord`."""
    permission_type: int8 = 0
    """2: deny; 3: allow."""


class UserScramCredentialRecord(Payload, versions="0", flexible="0+"):
    """A SCRAM credential of a user was set (KIP-900)."""

    name: string = ""
    """Name of the user."""
    mechanism: int8 = 0
    """1: SCRAM-SHA-256; 2: SCRAM-SHA-512."""
    salt: bytes = b""
    """Salt of the password (RFC 5802)."""
    stored_key: bytes = field(default=b"", secret=True)
    """Key with which the broker verifies the client (`StoredKey` of RFC 5802)."""
    server_key: bytes = field(default=b"", secret=True)
    """Key with which the client verifies the broker (`ServerKey` of RFC 5802)."""
    iterations: int32 = 0
    """Iterations of the password's hash."""


class RemoveUserScramCredentialRecord(Payload, versions="0", flexible="0+"):
    """A SCRAM credential of a user was removed."""

    name: string = ""
    """Name of the user."""
    mechanism: int8 = 0
    """1: SCRAM-SHA-256; 2: SCRAM-SHA-512."""


class DelegationTokenRecord(Payload, versions="0", flexible="0+"):
    """A delegation token was created or renewed (KIP-900)."""

    owner: string = ""
    """Principal that the token authenticates as."""
    requester: string = ""
    """Principal that created the token."""
    renewers: list[string] = field(factory=list)
    """Principals that can renew the token besides its owner."""
    issue_timestamp: int64 = 0
    """Time the token was created, in ms since 1970."""
    max_timestamp: int64 = 0
    """Time after which the token cannot be renewed, in ms since 1970."""
    expiration_timestamp: int64 = 0
    """Time the token expires unless it is renewed, in ms since 1970."""
    token_id: string = ""
    """Id of the token. Its HMAC is derived from the id and `delegation.token.secret.key`."""


class RemoveDelegationTokenRecord(Payload, versions="0", flexible="0+"):
    """A delegation token expired or was cancelled."""

    token_id: string = ""
    """Id of the token."""


class DefaultPrincipalData(Payload, versions="0", flexible="0+"):
    """A principal that a broker forwards to the controller: the `request_principal` of an Envelope (KIP-590)."""

    type: string = ""
    """Type of the principal, such as `User`."""
    name: string = ""
    """Name of the principal."""
    token_authenticated: bool = False
    """Whether a delegation token authenticated the principal."""
