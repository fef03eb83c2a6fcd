"""The state machine of a member whose assignment the coordinator computes (KIP-848, KIP-932, KIP-1071). Pure.

One request does everything: the *heartbeat*. The member sends its *member epoch*, and what the coordinator has to know;
the response contains the epoch to send next and, if it has changed, the *target*: what the member can own. There is no
barrier and no leader. Each member reconciles what it owns with its target independently: it gives up what isn't in the
target, takes what is new, and *acknowledges* by reporting what it owns. The coordinator assigns a partition to another
member only after its owner has reported giving it up, and only then moves that owner to the new epoch.

::

                   join                   target                reconciled
    UNSUBSCRIBED ───────→ JOINING ──────────────→ RECONCILING ─────────────→ ACKNOWLEDGING ───┐ reported
         ↑                  ↑  ↑                     ↑   ↑───── another target ──────┘        │
         │                  │  │                     └──────── target ──── STABLE ←───────────┘
         │                  │  └── FENCED ←── FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: everything is lost
         └── LEAVING        └───── STALE  ←── LEAVING: the application requests no records
               └── PREPARE_LEAVING: gives everything up

    FALLING_BACK ←── the coordinator lacks the protocol, from the start or later, and there is another one

The names are Java's (``MemberState``), except FALLING_BACK, where Java's consumer would end. The member chooses its id
and keeps it for life (KIP-1082). It joins with epoch 0, and leaves with -1. A static member (KIP-345) leaves with -2,
and the next member with its instance id gets what it owned.

A heartbeat carries the fields that the coordinator doesn't have yet. After a failure, the member can't know what the
coordinator has, so the next heartbeat carries all fields. The fields that report what the member owns are sent after
every reconciliation, even if they haven't changed: if something was withdrawn in the meantime, the coordinator may be
waiting for confirmation that the member never took it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Hashable, Mapping
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from aiokproto.failures import Action
from aiokproto.group.membership import LOST
from aiokproto.runtime import current

Item = TypeVar("Item", bound=Hashable)
"""The type of what is assigned: a partition of a topic id, or a task."""

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


class MemberState(Enum):
    """The states of a member, as KIP-848 and the Java client name them."""

    UNSUBSCRIBED = auto()
    """It isn't a member and doesn't want to be."""
    JOINING = auto()
    """It joins with the next heartbeat."""
    RECONCILING = auto()
    """It has a target that it hasn't carried out yet."""
    ACKNOWLEDGING = auto()
    """It has carried out a target and reports it with the next heartbeat."""
    STABLE = auto()
    """It owns its target, and the coordinator knows."""
    PREPARE_LEAVING = auto()
    """It's giving up what it owns, before it leaves."""
    LEAVING = auto()
    """It's sending its last heartbeat."""
    FENCED = auto()
    """The group has continued without it. It rejoins once it has released what it owned."""
    STALE = auto()
    """It has left because the application wasn't requesting records, and rejoins with the next request."""
    FALLING_BACK = auto()
    """The coordinator rejects the protocol. The member stops sending heartbeats, and gives up what it owns; it can
    still commit if the group hasn't forgotten it. Then it ends, and a member with another protocol takes its place."""
    FATAL = auto()
    """The group has permanently rejected it."""


_WITH_TARGET = frozenset({MemberState.JOINING, MemberState.RECONCILING, MemberState.ACKNOWLEDGING, MemberState.STABLE})
"""The states where a target is carried out."""

_IN_SESSION = _WITH_TARGET | {MemberState.PREPARE_LEAVING}

_ABSENT = object()


def new_member_id() -> str:
    """Return a random id in Kafka's format: 22 characters of base64, the first not a dash."""
    while (text := urlsafe_b64encode(current().uuid().bytes)[:22].decode()).startswith("-"):
        continue
    return text


class EpochMembership(Generic[Item]):
    """The state of the member. It decides what heartbeats carry, and changes with their responses.

    Attributes:
        instance_id: The static identity; None for a dynamic member.
        member_id: The id that this client has chosen.
        epoch: The member epoch: 0 before the first response, -1 after leaving.
        state: The state.
        owned: What the member owns.
        target: What it can own, according to the last response with a target.
        losses: How many times in a row the group has lost the member soon after it joined.
    """

    def __init__(self, instance_id: str | None = None, reports: tuple[str, ...] = ()) -> None:
        """``reports`` names the fields of a heartbeat that report what the member owns; empty if there are none."""
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = JOIN_EPOCH
        self.state = MemberState.UNSUBSCRIBED
        self.owned: frozenset[Item] = frozenset()
        self.target: frozenset[Item] = frozenset()
        self.losses = 0
        self._reports = reports
        self._known: dict[str, Any] = {}
        self._sent: dict[str, Any] = {}
        self._acknowledges = False
        self._target_is_new = False

    @property
    def in_session(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state in _IN_SESSION

    @property
    def joined(self) -> bool:
        """Whether the coordinator has accepted the member. If so, it can commit what it owns."""
        return self.epoch > JOIN_EPOCH and (self.in_session or self.state is MemberState.FALLING_BACK)

    def choose_id(self) -> None:
        """Choose the member id, unless it has one."""
        self.member_id = self.member_id or new_member_id()

    # Heartbeats

    def due(self, fields: Mapping[str, Any]) -> bool:
        """Return whether a heartbeat has something to report. If so, it doesn't wait for the interval."""
        return self.in_session and (self.state is MemberState.JOINING or bool(self._news(fields)))

    def heartbeat(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the next heartbeat carries: all of them to join and after a failure, else only the
        changed ones."""
        self.choose_id()
        self._sent = dict(fields) if self.state is MemberState.JOINING else self._news(fields)
        self._acknowledges = self.state is MemberState.ACKNOWLEDGING
        return dict(self._sent)

    def _news(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        changed = {name for name, value in fields.items() if self._known.get(name, _ABSENT) != value}
        if changed.intersection(self._reports):
            # A heartbeat reports everything that the member owns, or nothing.
            changed.update(self._reports)
        return {name: value for name, value in fields.items() if name in changed}

    def accepted(self, epoch: int, target: frozenset[Item] | None) -> None:
        """Handle a response without an error. ``target`` is None if it has not changed."""
        self._known.update(self._sent)
        if not self.in_session:
            return
        self.epoch = epoch
        # Keep the target even while the member prepares to leave: it may stay after all, and a target is sent only
        # once.
        if target is not None:
            self.target, self._target_is_new = target, True
        if self.state not in _WITH_TARGET:
            return
        # During a reconciliation, only its end changes the state.
        if self.state is not MemberState.RECONCILING and (
            self.state is not MemberState.ACKNOWLEDGING or self._acknowledges
        ):
            self._settle()

    def refused(self, action: Action) -> None:
        """Handle an error response to a heartbeat or a commit, or a heartbeat without a response.

        ``action`` is the result of :func:`~aiokproto.failures.classify`.
        """
        self._known.clear()
        if self.state is MemberState.FALLING_BACK and action in LOST:
            # A commit has discovered that the coordinator no longer knows the member.
            self.epoch = JOIN_EPOCH
        if not self.in_session:
            return
        if action in LOST:
            self.state, self.epoch = MemberState.FENCED, JOIN_EPOCH
            self.losses += 1
        elif action is Action.FALL_BACK:
            self.state = MemberState.FALLING_BACK
        elif action is Action.STOP:
            self.state = MemberState.FATAL

    # Reconciliation

    def start_reconciling(self) -> frozenset[Item]:
        """Return the target, to be carried out now."""
        self._target_is_new = False
        return self.target

    def take(self, items: frozenset[Item]) -> None:
        """Add items to what the member owns."""
        self.owned |= items

    def give_up(self, items: frozenset[Item]) -> None:
        """Remove items from what the member owns."""
        self.owned -= items

    def reconciled(self) -> None:
        """Record that the target is reached as far as currently possible. The next heartbeat acknowledges it."""
        if self.state is not MemberState.RECONCILING:
            return
        for name in self._reports:
            self._known.pop(name, None)
        if self._reports:
            self.state = MemberState.ACKNOWLEDGING
        else:
            self._settle()

    def _settle(self) -> None:
        behind = self._target_is_new or self.owned != self.target
        self.state = MemberState.RECONCILING if behind else MemberState.STABLE

    # Joining and leaving

    def join(self) -> None:
        """Join with the next heartbeat. The member owns nothing: everything was given up or lost before."""
        assert not self.owned, "a member joins without partitions"
        self.state, self.epoch = MemberState.JOINING, JOIN_EPOCH
        self.target, self._target_is_new = frozenset(), True
        self._known.clear()

    def prepare_leaving(self) -> None:
        """Start giving up everything."""
        if self.in_session:
            self.state = MemberState.PREPARE_LEAVING

    def stay(self) -> None:
        """Take back what was given up by :meth:`prepare_leaving`, if it's still in the target."""
        if self.state is MemberState.PREPARE_LEAVING:
            self._target_is_new = True
            self._settle()

    def leave(self, *, for_good: bool) -> int | None:
        """Return the epoch of the last heartbeat; None if the coordinator does not know the member.

        Args:
            for_good: Whether a static member leaves too, instead of being expected to return.
        """
        known = self.member_id and self.in_session
        self.state = MemberState.LEAVING
        self._known.clear()
        if not known:
            return None
        return LEAVE_EPOCH if for_good or self.instance_id is None else LEAVE_STATIC_EPOCH

    def left(self, *, stale: bool) -> None:
        """Note that the member has left. If ``stale``, it rejoins when the application requests records."""
        self.state = MemberState.STALE if stale else MemberState.UNSUBSCRIBED
        self.epoch = LEAVE_EPOCH
        self.target = frozenset()
