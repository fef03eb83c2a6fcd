"""The name of a prepared transaction, which outlives the process that has prepared it (KIP-939)."""

from __future__ import annotations

import re
from typing import NamedTuple

from aiokproto.errors import ConfigurationError

_TEXT = re.compile(r"(\d{1,19}):(\d{1,5})")
_MAX_STATE = (0x7FFFFFFFFFFFFFFF, 0x7FFF)


class PreparedTransaction(NamedTuple):
    """A transaction that waits for its decision. Store ``str(state)`` together with the decision.

    The text is the same as Java's ``PreparedTxnState``: ``"producer_id:epoch"``.

    Attributes:
        producer_id: The producer id that wrote its records.
        epoch: The epoch of these records.
    """

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """Return the transaction that ``str()`` has given this name.

        Raises:
            ConfigurationError: The text has another form.
        """
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None or (state := cls(int(found[1]), int(found[2]))) > _MAX_STATE or state.epoch > _MAX_STATE[1]:
            raise ConfigurationError(f'{text!r} names no prepared transaction: expected "producer_id:epoch"')
        return state
