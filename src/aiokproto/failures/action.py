"""The actions that can follow a failure, and the situation that they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode


class Action(Enum):
    """What to do about a failure."""

    ACCEPT = auto()
    """Not a failure: the requested state already holds, or isn't needed."""
    RETRY = auto()
    """Send the request again at once, changed as the response requires."""
    BACKOFF = auto()
    """Send the request again after a backoff; the same broker will accept it."""
    REFRESH_METADATA = auto()
    """Refresh the metadata, and send the request again after a backoff."""
    REBOOTSTRAP = auto()
    """Refresh the metadata from the bootstrap addresses (KIP-1102)."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator, and send the request again after a backoff."""
    NEW_SESSION = auto()
    """Start a new fetch session (KIP-227) or share session (KIP-932), and send a full request at once."""
    SPLIT_BATCH = auto()
    """Split the batch, or the acknowledgements (KIP-932), and send the parts (KIP-126)."""
    RESTART_SEQUENCE = auto()
    """Restart the partition's sequence numbers at 0 in the producer's next epoch, with this batch first (KIP-360)."""
    NEW_PRODUCER_ID = auto()
    """Like :attr:`RESTART_SEQUENCE`, but with a new producer id."""
    ABORT_TRANSACTION = auto()
    """This transaction can only be aborted. The producer can continue with the next transaction."""
    CHECK_EPOCH = auto()
    """Find out whether another producer has taken over, or the transaction has timed out. The coordinator returns the
    same error for both. Requesting an abort and the next epoch reveals which it was (KIP-360, KIP-588)."""
    RESET_OFFSET = auto()
    """Apply ``auto_offset_reset``: the position is outside the log."""
    VALIDATE_OFFSET = auto()
    """Refresh the metadata, and check with OffsetForLeaderEpoch that the log still contains the position (KIP-320)."""
    FETCH_FROM_LEADER = auto()
    """Stop reading from the follower (KIP-392), and fetch from the leader at once."""
    REJOIN = auto()
    """Join the group's next generation. Until then this member keeps its id and its partitions."""
    REJOIN_LOST = auto()
    """The group has continued without this member, and its partitions are lost. Rejoin with the same member id."""
    REJOIN_AS_NEW = auto()
    """Like :attr:`REJOIN_LOST`, but the member id is lost too."""
    REFRESH_EPOCH = auto()
    """Get the current member epoch with a heartbeat, and send the request again with that epoch (KIP-848)."""
    FALL_BACK = auto()
    """Join with the classic protocol instead (``group_protocol="auto"``)."""
    FAIL = auto()
    """Raise the error from this call, or for this partition or batch. The rest of the client continues."""
    STOP = auto()
    """End the client. Every later call raises the error."""


class Situation(NamedTuple):
    """What the action depends on, besides the failure itself.

    Static membership (KIP-345) doesn't need a flag: only static members receive the error codes about instance ids.
    """

    api: int | None = None
    """The ApiKey of the request. None if the caller handles the error codes, as with ``Client.request``."""
    coordinated: bool = False
    """The request went to a coordinator that was looked up. Only used for requests without their own table."""
    starting: bool = False
    """The cluster has not been reached yet."""
    renewing: bool = False
    """The client authenticates again on an open connection (KIP-368)."""
    idempotent: bool = False
    """The producer has a producer id, but no transactional id."""
    transactional: bool = False
    """The producer has a transactional id."""
    aborting: bool = False
    """The request aborts the transaction."""
    divisible: bool = False
    """The batch contains several records, or the acknowledgements rely on several locks."""
    overtaken: bool = False
    """An older batch of the partition has no outcome yet, so this batch reached the broker before it."""
    follower: bool = False
    """The records were requested from a follower."""
    optional: bool = False
    """There is another API for the same purpose: the classic group protocol."""
    member: bool = False
    """A group member commits or fetches the offsets. False means a client outside the group."""
    joined: bool = False
    """The coordinator has already accepted the member. False means that the member is trying to join."""


class Row(NamedTuple):
    """An action, and the reason for it."""

    action: Action
    why: str


Kind = ErrorCode | type[BaseException] | None
"""An error code or an exception class. None stands for all other failures."""

Rows = Mapping[Kind, Row]


class Table(NamedTuple):
    """The actions for the failures of one API."""

    rows: Rows
    when: tuple[tuple[str, Rows], ...] = ()
    """Rows that take precedence if the named flag of the :class:`Situation` is set."""


def rows(action: Action, why: str, *codes: ErrorCode | type[BaseException]) -> dict[Kind, Row]:
    """Return the same row for several failures."""
    return dict.fromkeys(codes, Row(action, why))


def otherwise(action: Action, why: str) -> dict[Kind, Row]:
    """Return the row for failures that neither the tables nor Kafka's flags decide."""
    return {None: Row(action, why)}
