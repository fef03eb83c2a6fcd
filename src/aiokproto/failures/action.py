"""What can be done about a failure, and what that depends on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode


class Action(Enum):
    """What to do about a failure."""

    ACCEPT = auto()
    """It is no failure: what the request asked for holds, or is not needed."""
    RETRY = auto()
    """Send it again at once, changed as the answer says."""
    BACKOFF = auto()
    """Send it again after a backoff: it is a matter of time."""
    REFRESH_METADATA = auto()
    """Refresh the metadata, and send it again after a backoff."""
    REBOOTSTRAP = auto()
    """Refresh the metadata from the bootstrap addresses (KIP-1102)."""
    FIND_COORDINATOR = auto()
    """Look the coordinator up, and send it again after a backoff."""
    NEW_SESSION = auto()
    """Begin a new fetch session (KIP-227) or share session (KIP-932), and send a full request at once."""
    SPLIT_BATCH = auto()
    """Divide the batch, and send its parts."""
    RESTART_SEQUENCE = auto()
    """Go on in this partition with the producer's next epoch and sequence 0 (KIP-360), this batch first."""
    NEW_PRODUCER_ID = auto()
    """As :attr:`RESTART_SEQUENCE`, but with a new producer id."""
    ABORT_TRANSACTION = auto()
    """This transaction can only be aborted; the producer can go on with the next."""
    RESET_OFFSET = auto()
    """The position is outside the log: apply ``auto_offset_reset``."""
    VALIDATE_OFFSET = auto()
    """Refresh the metadata, and check by OffsetForLeaderEpoch that the log still holds the position (KIP-320)."""
    FETCH_FROM_LEADER = auto()
    """Give the follower up that records are read from (KIP-392), and ask the leader at once."""
    REJOIN = auto()
    """Join the group's next generation; until then this member keeps its id and its partitions."""
    REJOIN_LOST = auto()
    """The group went on without this member: its partitions are lost. It joins again under the same member id."""
    REJOIN_AS_NEW = auto()
    """As :attr:`REJOIN_LOST`, but the member id is lost too."""
    FAIL = auto()
    """Raise it from this call, or for this partition or batch. Everything else goes on."""
    STOP = auto()
    """The client cannot go on: raise it from every call from now on."""


class Situation(NamedTuple):
    """What the meaning of a failure depends on, beside the failure.

    A static member (KIP-345) needs no flag: the codes about instance ids reach no other.
    """

    api: int | None = None
    """The ApiKey of the request. None: a request whose response codes are its caller's, as ``Client.request`` sends."""
    coordinated: bool = False
    """The request went to a coordinator that was looked up. For requests without a table of their own."""
    starting: bool = False
    """The cluster has not been reached yet."""
    idempotent: bool = False
    """The producer has a producer id, but no transactional id."""
    transactional: bool = False
    """The producer has a transactional id."""
    divisible: bool = False
    """The batch holds several records."""
    follower: bool = False
    """The records were asked of a follower."""
    member: bool = False
    """The offsets are those of a group member; without it, of somebody outside the group."""


class Row(NamedTuple):
    """What to do, and why."""

    action: Action
    why: str


Kind = ErrorCode | type[BaseException] | None
"""An error code, or a class of exception; None stands for all others."""

Rows = Mapping[Kind, Row]


class Table(NamedTuple):
    """What failures of one API mean."""

    rows: Rows
    when: tuple[tuple[str, Rows], ...] = ()
    """Rows that come before the others where that flag of the :class:`Situation` is set."""


def rows(action: Action, why: str, *codes: ErrorCode | type[BaseException]) -> dict[Kind, Row]:
    """The same row for several failures."""
    return dict.fromkeys(codes, Row(action, why))


def otherwise(action: Action, why: str) -> dict[Kind, Row]:
    """The row for whatever an API's table does not name, nor Kafka calls retriable."""
    return {None: Row(action, why)}
