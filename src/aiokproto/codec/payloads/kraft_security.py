"""The records of ``__cluster_metadata`` about users: ACLs, SCRAM credentials, delegation tokens (KIP-500).

Beside them, the principal that a broker forwards to the controller (KIP-590).
"""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int8, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class AccessControlEntryRecord(Payload, versions="0", flexible="0+"):
    id: uuid = ZERO_UUID
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 0
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class RemoveAccessControlEntryRecord(Payload, versions="0", flexible="0+"):
    id: uuid = ZERO_UUID


class AccessControlRecord(Payload, versions="0", flexible="0+"):
    resource_type: int8 = 0
    resource_name: string | None = ""
    pattern_type: int8 = 0
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class UserScramCredentialRecord(Payload, versions="0", flexible="0+"):
    name: string = ""
    mechanism: int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int32 = 0


class RemoveUserScramCredentialRecord(Payload, versions="0", flexible="0+"):
    name: string = ""
    mechanism: int8 = 0


class DelegationTokenRecord(Payload, versions="0", flexible="0+"):
    owner: string = ""
    requester: string = ""
    renewers: list[string] = field(factory=list)
    issue_timestamp: int64 = 0
    max_timestamp: int64 = 0
    expiration_timestamp: int64 = 0
    token_id: string = ""


class RemoveDelegationTokenRecord(Payload, versions="0", flexible="0+"):
    token_id: string = ""


class DefaultPrincipalData(Payload, versions="0", flexible="0+"):
    type: string = ""
    name: string = ""
    token_authenticated: bool = False
