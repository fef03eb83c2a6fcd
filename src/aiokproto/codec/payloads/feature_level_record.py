"""The feature level record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int16, string


class FeatureLevelRecord(Payload, versions="0", flexible="0+"):
    name: string = ""
    feature_level: int16 = 0
