"""Dynamic broker options: those that can be changed while brokers run (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from aiokproto.broker.config.options import BROKER, LONG, TOPIC, BrokerOptions, ConfigOverrides, Option, Value
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_RATE = Option((1 << 63) - 1, LONG, 0)


class NodeOptions(ConfigOverrides):
    """Dynamic options of a single broker: only replication throttles, which have no effect here."""

    KIND = "broker"
    TABLE: ClassVar[Mapping[str, Option]] = {
        "follower.replication.throttled.rate": _RATE,
        "leader.replication.throttled.rate": _RATE,
        "replica.alter.log.dirs.io.max.bytes.per.second": _RATE,
    }

    def __init__(self, own: Mapping[str, str | None], broker: BrokerOptions) -> None:
        """Check the options.

        Raises:
            BrokerError: INVALID_REQUEST, if one is for the start of a broker, or for all of them; INVALID_CONFIG.
        """
        fixed = [name for name in own if name in BROKER and name not in self.TABLE]
        if fixed:
            for_all = type(self) is NodeOptions and fixed[0] in ClusterOptions.TABLE
            text = "can be changed for all brokers only, not for one" if for_all else "cannot be changed at run time"
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"{', '.join(fixed)} {text}")
        super().__init__(own, broker)


class ClusterOptions(NodeOptions):
    """Dynamic options of all brokers: those that are read on each use, so that a new value takes effect at once."""

    TABLE: ClassVar[Mapping[str, Option]] = {
        **NodeOptions.TABLE,
        **{option.broker: BROKER[option.broker] for option in TOPIC.values() if option.broker},
        **{name: BROKER[name] for name in ("log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size")},
        **{name: BROKER[name] for name in ("producer.id.expiration.ms", "transaction.partition.verification.enable")},
    }

    def inherited(self, name: str) -> Value:
        """Return the static value, or the default."""
        return self._broker.value(name) if name in BROKER else super().inherited(name)

    def changes(self) -> dict[str, Value]:
        """Return the values for :attr:`BrokerOptions.dynamic`."""
        return {name: self.value(name) for name in self.overrides if name in BROKER}
