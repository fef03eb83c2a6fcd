"""Warnings of a consumer without records: why none arrives."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.fetcher import Fetcher
from aiokproto.consumer.reader import Reader
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.group.member import GroupMember
from aiokproto.texts import counted

log = logging.getLogger("aiokproto.consumer")

SILENT_FOR = 5.0
"""Seconds without a record, while a call waits and something is wrong, after which the cause is logged."""

REPEATED_AFTER = 30.0
"""Seconds after which the same causes are logged again."""

_NAMED = 3
"""How many causes are named, the most frequent first."""


class SilenceWatch:
    """Logs why a consumer gets no records.

    Topics without new records are no cause: only partitions that cannot be read, a group that cannot be joined, a group
    that has no partition for this member, and a deserializer or a dead letter that is awaited.
    """

    def __init__(self, assignment: Assignment, fetcher: Fetcher, reader: Reader, member: GroupMember | None) -> None:
        self._assignment = assignment
        self._fetcher = fetcher
        self._reader = reader
        self._member = member
        self._logged = ""
        self._logged_at = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        # Counters and no hooks: the paths that deliver records know nothing of this watch.
        delivered, requests, since = -1, 0, loop.time()
        while True:
            if self._assignment.delivered != delivered:
                delivered, since, self._logged = self._assignment.delivered, loop.time(), ""
            # An application that requests nothing does not wait, so nothing is missing.
            waiting = self._reader.waiting or self._reader.awaited is not None
            waited, requests = waiting or self._reader.requests != requests, self._reader.requests
            if waited and loop.time() - since >= SILENT_FOR and (causes := await self._causes()):
                self._log(causes, loop.time() - since, loop.time())
            await asyncio.sleep(SILENT_FOR)

    def _log(self, causes: str, silent: float, now: float) -> None:
        if causes != self._logged or now - self._logged_at >= REPEATED_AFTER:
            log.warning("consumer: no record in %.0f s: %s", silent, causes)
            self._logged, self._logged_at = causes, now

    async def _causes(self) -> str:
        """Return what is wrong, empty if nothing is."""
        if self._reader.awaited is not None:
            return str(self._reader.awaited)
        if self._member is not None and (problem := self._member.problem):
            return problem
        time_slice, found = TimeSlice(), Counter[str]()
        for cursor in list(self._assignment.cursors.values()):
            if problem := self._fetcher.problem(cursor):
                found[problem] += 1
            await time_slice.pause()
        size = len(self._assignment.cursors)
        if not size and self._member is not None and not self._member.outside:
            return (
                "the group has assigned no partition to this member yet: other members have not given theirs up, or "
                "there are more members than partitions"
            )
        causes = [f"{count} of {counted(size, 'partition')}: {cause}" for cause, count in found.most_common(_NAMED)]
        if len(found) > _NAMED:
            causes.append(f"and {len(found) - _NAMED} other causes")
        return "; ".join(causes)
