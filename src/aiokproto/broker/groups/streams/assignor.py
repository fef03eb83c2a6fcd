"""Who should have which task: the assignor that streams groups have unless told otherwise, "sticky"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from aiokproto.broker.groups.streams.member import Kind, Task, Tasks

NAME = "sticky"

_What = tuple[str, int]


class Wish(NamedTuple):
    """What the assignor knows of a member: the process it is a thread of, and what it was to have so far."""

    process_id: str
    target: Tasks = frozenset()


def sticky(
    wishes: Mapping[str, Wish], sizes: Mapping[str, int], stateful: frozenset[str], standbys: int
) -> dict[str, Tasks]:
    """As even as can be, first by process, then by member, and as much as possible stays where it is.

    Args:
        wishes: The members by id.
        sizes: The number of tasks of each subtopology.
        stateful: The subtopologies that have state: shared out evenly among themselves, and with standbys.
        standbys: How many standbys each of their tasks should have, in other processes than the task itself.
    """
    board = _Board(wishes)
    if not wishes:
        return {}
    whats = [(subtopology, index) for subtopology, size in sorted(sizes.items()) for index in range(size)]
    with_state = [what for what in whats if what[0] in stateful]
    without = [what for what in whats if what[0] not in stateful]
    board.share_out(with_state, Kind.ACTIVE, len(with_state))
    board.share_out(without, Kind.ACTIVE, len(whats))
    for _ in range(standbys):
        board.share_out(with_state, Kind.STANDBY, len(whats) + standbys * len(with_state))
    return {member_id: frozenset(tasks) for member_id, tasks in board.targets.items()}


class _Board:
    """Who has been given what so far."""

    def __init__(self, wishes: Mapping[str, Wish]) -> None:
        self.targets: dict[str, set[Task]] = {member_id: set() for member_id in wishes}
        self._process = {member_id: wish.process_id for member_id, wish in wishes.items()}
        self._threads = Counter(self._process.values())
        self._loads: Counter[str] = Counter()
        self._holders: dict[_What, set[str]] = {}
        self._before: dict[Task, list[str]] = {}
        for member_id, wish in wishes.items():
            for task in wish.target:
                self._before.setdefault(task, []).append(member_id)

    def share_out(self, whats: Iterable[_What], kind: Kind, total: int) -> None:
        """Give tasks to members: to who had them, while nobody gets more than a share of ``total``; then to others."""
        share, odd = divmod(total, len(self.targets))
        left = list(whats)
        for before in _PREFERRED[kind]:
            left = [what for what in left if not self._keep(what, kind, before, share, odd)]
        for what in left:
            self._give_to_least(what, kind)

    def _keep(self, what: _What, kind: Kind, before: Kind, share: int, odd: int) -> bool:
        """Leave a task with who had it, if there is such a one who has room for it."""
        above = sum(len(tasks) > share for tasks in self.targets.values())
        # Of the odd ones each goes to another member.
        most = share + (above < odd)
        candidates = [each for each in self._before.get(Task(before, *what), ()) if self._may(each, what)]
        candidates = [each for each in candidates if len(self.targets[each]) < most]
        if candidates:
            self._give(min(candidates, key=self._load), what, kind)
        return bool(candidates)

    def _give_to_least(self, what: _What, kind: Kind) -> None:
        candidates = [each for each in self.targets if self._may(each, what)]
        # A standby may find no process that does not have the task already.
        if candidates:
            self._give(min(candidates, key=self._load), what, kind)

    def _may(self, member_id: str, what: _What) -> bool:
        """Whether a task is not yet in this member's process."""
        return self._process[member_id] not in self._holders.get(what, ())

    def _give(self, member_id: str, what: _What, kind: Kind) -> None:
        process_id = self._process[member_id]
        self.targets[member_id].add(Task(kind, *what))
        self._loads[process_id] += 1
        self._holders.setdefault(what, set()).add(process_id)

    @property
    def _load(self) -> Callable[[str], tuple[float, int]]:
        """How much a member has to do: first its process, for each of its threads."""

        def load(member_id: str) -> tuple[float, int]:
            process_id = self._process[member_id]
            return self._loads[process_id] / self._threads[process_id], len(self.targets[member_id])

        return load


_PREFERRED = {
    Kind.ACTIVE: (Kind.ACTIVE, Kind.STANDBY, Kind.WARMUP),
    Kind.STANDBY: (Kind.STANDBY, Kind.WARMUP, Kind.ACTIVE),
    Kind.WARMUP: (Kind.WARMUP,),
}
"""Those who come first when a task is shared out: who had it, who has its state."""
