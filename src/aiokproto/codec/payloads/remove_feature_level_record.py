"""The remove feature level record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, string


class RemoveFeatureLevelRecord(Payload, versions="0", flexible="0+"):
    name: string = ""
