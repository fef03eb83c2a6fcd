"""The "sticky" assignor of streams groups: which member gets which task in which role.

It balances by process first and by thread second, because a process's threads share its memory and disk. Tasks stay
where they are or go where their state is, unless a member would get more than its share: moving a stateful task means
restoring its state from the changelog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from aiokproto.broker.groups.streams.member import Task, TaskRole, Tasks

NAME = "sticky"

TaskId = tuple[str, int]


class MemberSpec(NamedTuple):
    """A member as the assignor sees it: the process it is a thread of, and its last target assignment."""

    process_id: str
    target: Tasks = frozenset()


def sticky(
    specs: Mapping[str, MemberSpec], sizes: Mapping[str, int], stateful: frozenset[str], standbys: int
) -> dict[str, Tasks]:
    """Assign all tasks as active, and standby tasks for the stateful ones.

    Args:
        specs: The members by id.
        sizes: The number of tasks of each subtopology.
        stateful: The subtopologies that have state. Their tasks are assigned first, so that they are balanced among
            themselves.
        standbys: The number of standby tasks for each stateful task, each in a different process. With too few
            processes, there are fewer standby tasks.
    """
    builder = _AssignmentBuilder(specs)
    if not specs:
        return {}
    task_ids = [(subtopology, index) for subtopology, size in sorted(sizes.items()) for index in range(size)]
    with_state = [task_id for task_id in task_ids if task_id[0] in stateful]
    without = [task_id for task_id in task_ids if task_id[0] not in stateful]
    # Stateful tasks are assigned first and with their own total, to spread their load evenly over the processes.
    builder.assign(with_state, TaskRole.ACTIVE, len(with_state))
    builder.assign(without, TaskRole.ACTIVE, len(task_ids))
    for _ in range(standbys):
        builder.assign(with_state, TaskRole.STANDBY, len(task_ids) + standbys * len(with_state))
    return {member_id: frozenset(tasks) for member_id, tasks in builder.targets.items()}


class _AssignmentBuilder:
    """The tasks assigned so far, and the load of each process."""

    def __init__(self, specs: Mapping[str, MemberSpec]) -> None:
        self.targets: dict[str, set[Task]] = {member_id: set() for member_id in specs}
        self._process = {member_id: spec.process_id for member_id, spec in specs.items()}
        self._threads = Counter(self._process.values())
        self._loads: Counter[str] = Counter()
        self._processes: dict[TaskId, set[str]] = {}
        self._previous: dict[Task, list[str]] = {}
        for member_id, spec in specs.items():
            for task in spec.target:
                self._previous.setdefault(task, []).append(member_id)

    def assign(self, task_ids: Iterable[TaskId], role: TaskRole, total: int) -> None:
        """Assign tasks in a role. Members that had them come first, up to their share of ``total``; other members get
        the rest."""
        share, remainder = divmod(total, len(self.targets))
        remaining = list(task_ids)
        for previous_role in _PREFERRED_ROLES[role]:
            remaining = [
                task_id
                for task_id in remaining
                if not self._assign_to_previous(task_id, role, previous_role, share, remainder)
            ]
        for task_id in remaining:
            self._assign_to_least_loaded(task_id, role)

    def _assign_to_previous(
        self, task_id: TaskId, role: TaskRole, previous_role: TaskRole, share: int, remainder: int
    ) -> bool:
        """Assign a task to a member that had it in ``previous_role`` and is below its share. Return False if there is
        none."""
        # This is counted for each task, because earlier tasks may have used up the remainder.
        above = sum(len(tasks) > share for tasks in self.targets.values())
        # With a remainder of N, N members get one more task.
        most = share + (above < remainder)
        candidates = [
            each for each in self._previous.get(Task(previous_role, *task_id), ()) if self._can_take(each, task_id)
        ]
        candidates = [each for each in candidates if len(self.targets[each]) < most]
        if candidates:
            self._assign_task(min(candidates, key=self._load), task_id, role)
        return bool(candidates)

    def _assign_to_least_loaded(self, task_id: TaskId, role: TaskRole) -> None:
        candidates = [each for each in self.targets if self._can_take(each, task_id)]
        # There is no candidate for a standby if every process already has the task.
        if candidates:
            self._assign_task(min(candidates, key=self._load), task_id, role)

    def _can_take(self, member_id: str, task_id: TaskId) -> bool:
        """Return whether a task isn't assigned to this member's process yet."""
        return self._process[member_id] not in self._processes.get(task_id, ())

    def _assign_task(self, member_id: str, task_id: TaskId, role: TaskRole) -> None:
        process_id = self._process[member_id]
        self.targets[member_id].add(Task(role, *task_id))
        self._loads[process_id] += 1
        self._processes.setdefault(task_id, set()).add(process_id)

    @property
    def _load(self) -> Callable[[str], tuple[float, int]]:
        """The sort key of members: tasks per thread of the process, then tasks of the member."""

        def load(member_id: str) -> tuple[float, int]:
            process_id = self._process[member_id]
            return self._loads[process_id] / self._threads[process_id], len(self.targets[member_id])

        return load


_PREFERRED_ROLES = {
    TaskRole.ACTIVE: (TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP),
    TaskRole.STANDBY: (TaskRole.STANDBY, TaskRole.WARMUP, TaskRole.ACTIVE),
    TaskRole.WARMUP: (TaskRole.WARMUP,),
}
"""For each role, the previous roles to prefer members by: such a member already has the task's state."""
