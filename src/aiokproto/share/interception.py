"""Interceptors of the records that a share consumer delivers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from aiokproto.interceptors import Interceptors
from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.share.ledger import ShareRecord
from aiokproto.texts import repr_of
from aiokproto.types import Record

log = logging.getLogger("aiokproto.share")


class Interception:
    """Passes records to the interceptors, and settles those that are left out.

    A record that is left out counts as processed, as with a consumer: it is accepted, unless the interceptor has
    acknowledged it otherwise. A plain record in the place of one is delivered with the lock of that.
    """

    def __init__(
        self, interceptors: Interceptors, settle: Callable[[Iterable[ShareRecord], Acknowledgement], None]
    ) -> None:
        """``settle`` acknowledges records that are not acknowledged."""
        self._interceptors = interceptors if interceptors.receiving else None
        self._settle = settle

    def records(self, records: list[ShareRecord]) -> list[ShareRecord]:
        """Return the records to deliver, in the order of their offsets."""
        if self._interceptors is None or not records:
            return records
        rest = {record.offset: record for record in records}
        found: list[ShareRecord] = []
        for each in self._interceptors.on_records(list[Record](records)):
            original = rest.pop(each.offset, None)
            if original is None:
                log.error(
                    "share consumer: an interceptor has returned %s, which it did not get, or twice", repr_of(each)
                )
            elif isinstance(each, ShareRecord):
                found.append(each)
            else:
                found.append(original.replaced_by(each))
        self._settle(rest.values(), Acknowledgement.ACCEPT)
        return sorted(found, key=lambda record: record.offset)
