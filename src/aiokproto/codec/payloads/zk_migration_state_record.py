"""The zk migration state record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int8


class ZkMigrationStateRecord(Payload, versions="0", flexible="0+"):
    zk_migration_state: int8 = 0
