"""Heartbeats of a member whose assignment the coordinator computes. They are the only requests about its membership."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import RETRIED, CoordinatorRequests
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.epoch_membership import EpochMembership, MemberState
from aiokproto.group.session import Session
from aiokproto.observe.observers import Timing
from aiokproto.runtime import create_task
from aiokproto.runtime.timeouts import wait_until

if TYPE_CHECKING:
    from aiokproto.group.epoch_member import EpochMember

log = logging.getLogger("aiokproto.group")

Item = TypeVar("Item", bound=Hashable)

_REFUSED = frozenset({MemberState.FENCED, MemberState.FALLING_BACK, MemberState.FATAL})

_FIRST_INTERVAL = 5.0
"""Seconds between heartbeats until the coordinator has set the interval."""


class HeartbeatForm(Protocol[Item]):
    """The content of the heartbeats for one kind of group."""

    @property
    def request_type(self) -> type[Request[Any]]:
        """The class of the request."""
        ...

    @property
    def subscribed(self) -> bool:
        """Whether there is a reason to be a member."""
        ...

    @property
    def reports(self) -> tuple[str, ...]:
        """The fields that report what the member owns."""
        ...

    def fields(self, owned: frozenset[Item], version: int) -> dict[str, Any]:
        """Return what the coordinator has to know, by field. The values must not be modified later."""
        ...

    def always(self, version: int, joins: bool) -> dict[str, Any]:
        """Return the fields that every heartbeat carries. ``joins`` says whether it's a heartbeat to join."""
        ...

    def target(self, response: Any) -> frozenset[Item] | None:
        """Return the target in a response, or None if it has not changed. Note the rest of the response."""
        ...


class _Exchange:
    """One heartbeat."""

    def __init__(self, form: HeartbeatForm[Any], situation: Situation, build: Callable[[int], Request[Any]]) -> None:
        self.request_type = form.request_type
        self.situation = situation
        self._build = build

    def highest(self) -> int | None:
        return None

    def build(self, version: int) -> Request[Any]:
        return self._build(version)

    def failure(self, response: Any) -> ErrorCode:
        return ErrorCode(response.error_code)


class EpochHeartbeat(Generic[Item]):
    """Sends heartbeats: at the interval that the coordinator sets, and immediately when there is something to report.

    Invariant: one heartbeat at a time. The coordinator would reject the epoch of a second one.

    Attributes:
        session: The session that they keep alive.
        failure: Why the last heartbeat failed; empty if it succeeded.
        latency: How long successful heartbeats took.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        membership: EpochMembership[Item],
        form: HeartbeatForm[Item],
        session: Session,
        member: EpochMember[Item],
        *,
        optional: bool = False,
    ) -> None:
        """``optional`` says whether there is another protocol for the same purpose."""
        self.session = session
        self.failure = ""
        self.latency = Timing()
        self._cluster = cluster
        self._group_id = group_id
        self._membership = membership
        self._form = form
        self._member = member
        self._requests = CoordinatorRequests(cluster, CoordinatorKind.GROUP, group_id)
        self._situation = Situation(form.request_type.api_key, member=True, optional=optional)
        self._name = f"{form.request_type.__name__.removesuffix('Request')} of group {group_id!r}"
        self._interval = _FIRST_INTERVAL
        self._version = form.request_type.versions.highest
        self._sent_at = 0.0
        self._joined_at = 0.0
        self._losses_seen = 0
        # The loop time when another member was first seen with the instance id, if any.
        self._taken_since: float | None = None
        self._woken = asyncio.Event()
        self._turn = asyncio.Lock()
        self._in_flight: asyncio.Task[Any] | None = None

    def wake(self) -> None:
        """Check again whether a heartbeat is due."""
        self._woken.set()

    async def run(self) -> None:
        """Send heartbeats while the member is in the group, until cancelled.

        Raises:
            KafkaError: A heartbeat failed permanently.
        """
        failures = 0
        try:
            while True:
                if failures and self._membership.in_session:
                    await asyncio.sleep(self._cluster.backoff.delay(failures))
                else:
                    await self._until_due()
                    await self._pause_after_losses()
                if self._membership.in_session:
                    async with self._turn:
                        failures = 0 if await self._send_heartbeat() else failures + 1
        finally:
            self.session.stop()

    async def _pause_after_losses(self) -> None:
        """Wait if the group has lost the member since the last heartbeat, unless it was the first loss. After the first
        loss, the member rejoins immediately."""
        # The state isn't enough: the response to a heartbeat from before the loss can end JOINING.
        losses, seen = self._membership.losses, self._losses_seen
        self._losses_seen = losses
        # guard: a member that the group loses repeatedly joins after a pause
        if losses > max(seen, 1):
            self._joined_at = asyncio.get_running_loop().time()
            await asyncio.sleep(self._cluster.backoff.delay(losses - 1))

    async def refresh(self, epoch: int) -> None:
        """Get the member's epoch from the coordinator, unless it already differs from ``epoch``."""
        async with self._turn:
            if self._membership.joined and self._membership.epoch == epoch:
                await self._send_heartbeat()

    async def leave(self, epoch: int, timeout: float) -> None:
        """Send the last heartbeat. If a heartbeat is in flight, abandon it. Failures are only logged."""
        if self._in_flight is not None:
            self._in_flight.cancel()
        exchange = _Exchange(self._form, self._situation, lambda version: self._request(epoch, {}))
        try:
            async with self._turn:
                response = await self._requests.send(exchange, asyncio.get_running_loop().time() + timeout)
            # If the coordinator doesn't know the member, it has left.
            if classify(code := ErrorCode(response.error_code), self._situation) is Action.STOP:
                raise self._error(code, response.error_message)
        except KafkaError as error:
            log.info("group %s: could not leave; the session will expire: %s", self._group_id, error)

    def _error(self, code: ErrorCode, detail: str | None) -> KafkaError:
        return error_for(code, self._name, detail, self._cluster.asked(self._form.request_type, group=self._group_id))

    async def _until_due(self) -> None:
        loop, membership = asyncio.get_running_loop(), self._membership
        while True:
            self._woken.clear()
            if membership.due(self._form.fields(membership.owned, self._version)):
                return
            at = self._sent_at + self._interval if membership.in_session else None
            if at is not None and at <= loop.time():
                return
            await wait_until(self._woken, at)

    async def _send_heartbeat(self) -> bool:
        """Send one heartbeat. Return whether the coordinator accepted it."""
        membership, sent_at = self._membership, asyncio.get_running_loop().time()
        situation = self._situation._replace(joined=membership.joined)
        exchange = _Exchange(self._form, situation, self._build)
        self._sent_at = sent_at
        # A session has to have room for several attempts, or a single lost response would end it.
        timeout = min(self._cluster.config.request_timeout, self.session.timeout / 3)
        self._in_flight = create_task(
            self._requests.attempt(exchange, timeout, timeout=timeout), name="aiokproto-group-heartbeat"
        )
        try:
            await asyncio.wait([self._in_flight])
            if self._in_flight.cancelled():
                return False
            response = self._in_flight.result()
        except KafkaError as error:
            action = classify(error, situation)
            self._failed(action, error)
            if action not in RETRIED and action is not Action.FALL_BACK:
                raise
            return False
        except asyncio.CancelledError:
            # A commit that was waiting for the epoch was cancelled. The response, which may contain a new target, won't
            # be read. So the next heartbeat, which is now due, carries all fields, and its response is complete, too.
            membership.refused(Action.BACKOFF)
            self.wake()
            raise
        finally:
            task, self._in_flight = self._in_flight, None
            if task.cancel():
                await asyncio.wait([task])
        code = ErrorCode(response.error_code)
        action = self._judged(code, classify(code, situation))
        if action is not Action.ACCEPT:
            self._failed(action, self._error(code, self._detail(code, response, action)))
            return False
        self.failure = ""
        self._taken_since = None
        now = asyncio.get_running_loop().time()
        # A single accepted heartbeat doesn't prove much: a commit can lose the membership again, and the next heartbeat
        # rejoin.
        if membership.state is MemberState.JOINING:
            self._joined_at = now
        elif now - self._joined_at >= self._interval:
            membership.losses = 0
        self.latency.add(now - sent_at)
        if response.heartbeat_interval_ms > 0:
            # A session must have room for several heartbeats, even if the coordinator says otherwise: with room for
            # only one, each heartbeat would come at the end of the session.
            self._interval = min(response.heartbeat_interval_ms / 1000, self.session.timeout / 3)
        self.session.confirm(sent_at)
        membership.accepted(response.member_epoch, self._form.target(response))
        self._member.heartbeat_responded(None)
        return True

    def _judged(self, code: ErrorCode, action: Action) -> Action:
        """Return the action for an error code. If another member has had the instance id for longer than a session,
        that member is alive."""
        if code is not ErrorCode.UNRELEASED_INSTANCE_ID:
            return action
        now = asyncio.get_running_loop().time()
        if self._taken_since is None:
            self._taken_since = now
        return Action.STOP if now - self._taken_since > self.session.timeout else action

    def _detail(self, code: ErrorCode, response: Any, action: Action) -> str | None:
        said: str | None = response.error_message
        if code is not ErrorCode.UNRELEASED_INSTANCE_ID or action is not Action.STOP:
            return said
        text = (
            f"another member has had group_instance_id={self._membership.instance_id!r} for longer than a session of "
            f"{self.session.timeout:g} s, so it lives: each process needs a name of its own"
        )
        return f"{said}; {text}" if said else text

    def _failed(self, action: Action, error: KafkaError) -> None:
        log.debug("group %s: heartbeat: %s", self._group_id, error)
        self.failure = str(error)
        self._requests.prepare_retry(action, str(error))
        self._membership.refused(action)
        self._member.heartbeat_responded(error if self._membership.state in _REFUSED else None)

    def _build(self, version: int) -> Request[Any]:
        self._version, membership = version, self._membership
        fields = membership.heartbeat(self._form.fields(membership.owned, version))
        joins = membership.state is MemberState.JOINING
        return self._request(membership.epoch, self._form.always(version, joins) | fields)

    def _request(self, epoch: int, fields: dict[str, Any]) -> Request[Any]:
        if self._membership.instance_id is not None:
            fields = {**fields, "instance_id": self._membership.instance_id}
        # The three requests share these fields, but not a base class.
        make: Any = self._form.request_type
        request: Request[Any] = make(
            group_id=self._group_id, member_id=self._membership.member_id, member_epoch=epoch, **fields
        )
        return request
