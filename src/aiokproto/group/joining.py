"""Joining a generation (JoinGroup, assignment, SyncGroup), and leaving the group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.cluster import ClusterClient
from aiokproto.cluster.coordinator_requests import CoordinatorRequests
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError, DecodeError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.assignors import Assignor
from aiokproto.group.config import GroupConfig
from aiokproto.group.heartbeat import Heartbeat
from aiokproto.group.leader import Leader
from aiokproto.group.membership import Membership, Phase
from aiokproto.group.protocol import decode_assignment, encode_subscription
from aiokproto.net.features import STATIC_MEMBERS
from aiokproto.texts import repr_of
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.group")

_JOIN_MARGIN = 5.0
"""How many seconds a JoinGroup response can take in addition to the rebalance timeout, which the coordinator may use
up."""

_MANY_LEAVE = 3
"""The first version of LeaveGroup with a list of members (KIP-345)."""

_LEAVE_GROUP = Situation(LeaveGroupRequest.api_key, member=True)


class JoinFailure(NamedTuple):
    """Why an attempt to join failed, and what to do about it.

    Attributes:
        action: What to do.
        error: Why.
        joined: Whether the member is in the generation anyway, with an assignment that cannot be decoded.
    """

    action: Action
    error: KafkaError
    joined: bool = False


class Joining:
    """Joins generations: JoinGroup, the assignment if this member leads, SyncGroup.

    Invariant: an attempt only changes the :class:`Membership`; ownership of partitions changes in the rebalance loop.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: GroupConfig,
        assignors: Sequence[Assignor],
        membership: Membership,
        requests: CoordinatorRequests,
        heartbeat: Heartbeat,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._membership = membership
        self._requests = requests
        self._heartbeat = heartbeat
        self._leader = Leader(cluster, config.group_id)
        # If any assignor is eager, all partitions are revoked before joining: the group may agree on that assignor.
        self.cooperative = all(assignor.cooperative for assignor in assignors)

    async def attempt(
        self, topics: frozenset[str], owned: set[TopicPartition], reason: str
    ) -> set[TopicPartition] | JoinFailure:
        """Make one attempt. Return the assigned partitions, or the failure and what to do about it.

        Raises:
            KafkaError: The group has permanently rejected this member.
        """
        membership, api = self._membership, JoinGroupRequest.api_key
        # JoinGroup announces this rebalance timeout, and the coordinator may hold back the response for that long.
        timeout = self._config.max_poll_interval + _JOIN_MARGIN
        try:
            if membership.instance_id is not None:
                await self._requests.require(STATIC_MEMBERS, timeout=timeout)
            protocols = self._protocols(topics, owned)
            # Make one attempt, without the retries of CoordinatorRequests.send: between attempts, the loop checks
            # whether it should still join, and with which subscription.
            joined = await self._requests.once(membership.join(protocols, reason), timeout=timeout)
            action = membership.joined(joined)
            if action is not Action.ACCEPT:
                return self._failed(action, self._refused(joined.error_code, JoinGroupRequest))
            if membership.protocol not in self._assignors:
                return self._failed(Action.BACKOFF, self._disagrees())
            # Any later failure belongs to SyncGroup. (Computing the assignment may look up topics, but Leader handles
            # those errors.)
            assignor = self._assignors[membership.protocol]
            api, assignments = SyncGroupRequest.api_key, await self._assignments(assignor)
            # Take the time after computing the assignment, which can take seconds: the session counts as confirmed from
            # the time of this request.
            sent_at = asyncio.get_running_loop().time()
            synced = await self._requests.once(membership.sync(assignments), timeout=timeout)
            action = membership.synced(synced.error_code)
            if action is not Action.ACCEPT:
                return self._failed(action, self._refused(synced.error_code, SyncGroupRequest))
        except KafkaError as error:
            return self._failed(classify(error, Situation(api, member=True)), error)
        # JoinGroup doesn't confirm the session: its response may have been held back for longer than a session.
        self._heartbeat.session.confirm(sent_at)
        try:
            assigned = decode_assignment(bytes(synced.assignment))
        except DecodeError as error:
            return JoinFailure(Action.REJOIN, error, joined=True)
        with calling(f"on_assignment of the assignor {assignor.name!r}"):
            # Type checkers assume that there is no result.
            result: object = assignor.on_assignment(assigned, membership.generation)  # type: ignore[func-returns-value]
            check_not_awaitable(result, "on_assignment")
        return set(assigned)

    def watches(self, topic: str) -> bool:
        """Return whether this member leads, and any member subscribes to a topic."""
        return self._membership.leads and self._leader.watches(topic)

    def outdated(self) -> str:
        """Return why the assignment is outdated; empty if it isn't, or if another member leads."""
        if not self._membership.leads or self._membership.phase is not Phase.STABLE:
            return ""
        return self._leader.outdated(self._cluster.snapshot)

    async def leave(self, reason: str, timeout: float, *, for_good: bool = False) -> None:
        """Leave the group, so the other members don't have to wait for the session to expire. Failures are only logged.

        A static member leaves only if ``for_good``: otherwise it's expected to return (KIP-345).
        """
        request = self._membership.leave(reason, for_good=for_good)
        # Forget the membership before the request: whatever happens to the request, this client no longer acts as that
        # member. A static member is forgotten, too, and found again by its instance id.
        self._membership.forget()
        if request is None:
            return
        exchange, group_id = _Leave(request), self._config.group_id
        try:
            # Retry: if LeaveGroup is lost, the other members have to wait for a whole session timeout.
            response = await self._requests.send(exchange, asyncio.get_running_loop().time() + timeout)
            if code := exchange.failure(response):
                raise error_for(code, f"LeaveGroup of group {group_id!r}")
        except KafkaError as error:
            log.info("group %s: could not leave; the session will expire: %s", group_id, error)

    def _refused(self, code: int, request: type[Request[Any]]) -> KafkaError:
        group = self._membership.group_id
        context = f"{api_name(request.api_key)} of {self._config.named}"
        return error_for(code, context, None, self._cluster.asked(request, group=group))

    def _failed(self, action: Action, error: KafkaError) -> JoinFailure:
        # FAIL ends the join for good, too, because there is no call that could raise the error instead.
        if action in (Action.STOP, Action.FAIL):
            raise error
        self._requests.prepare_retry(action, str(error))
        return JoinFailure(action, error)

    def _protocols(self, topics: frozenset[str], owned: set[TopicPartition]) -> dict[str, bytes]:
        generation, rack = self._membership.generation, self._config.client_rack
        return {
            name: encode_subscription(topics, _user_data(assignor, topics), owned, generation, rack)
            for name, assignor in self._assignors.items()
        }

    async def _assignments(self, assignor: Assignor) -> dict[str, bytes]:
        if not self._membership.leads:
            return {}
        # This is a returning static leader. The coordinator keeps the assignment, but the leader must still notice
        # topic changes (KIP-814).
        if self._membership.skip_assignment:
            await self._leader.watch(self._membership.members)
            return {}
        return await self._leader.assign(assignor, self._membership.members)

    def _disagrees(self) -> KafkaError:
        # The coordinator picks an assignor that all members have, so only a broken coordinator names a different one.
        return ConfigurationError(
            f"group {self._config.group_id!r} agreed on the assignor {self._membership.protocol[:100]!r}, "
            f"which is not in partition_assignment_strategy"
        )


def _user_data(assignor: Assignor, topics: frozenset[str]) -> bytes | None:
    with calling(f"user_data of the assignor {assignor.name!r}"):
        data: object = assignor.user_data(topics)
        check_not_awaitable(data, "user_data")
    if data is not None and not isinstance(data, bytes):
        raise TypeError(
            f"user_data of the assignor {assignor.name!r} returned {repr_of(data, 80)}: expected bytes, or None"
        )
    return data


class _Leave:
    """LeaveGroup."""

    request_type = LeaveGroupRequest
    situation = _LEAVE_GROUP

    def __init__(self, request: LeaveGroupRequest) -> None:
        self._request = request

    def highest(self) -> int | None:
        return None

    def build(self, version: int) -> LeaveGroupRequest:
        request = self._request
        if version >= _MANY_LEAVE:
            return LeaveGroupRequest(group_id=request.group_id, members=request.members)
        return LeaveGroupRequest(group_id=request.group_id, member_id=request.member_id)

    def failure(self, response: LeaveGroupResponse) -> ErrorCode:
        # Read both forms: versions 3+ contain the codes of individual members.
        codes = [ErrorCode(code) for code in (response.error_code, *(each.error_code for each in response.members))]
        return next((code for code in codes if classify(code, _LEAVE_GROUP) is not Action.ACCEPT), ErrorCode.NONE)
