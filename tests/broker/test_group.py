"""The classic group, with a clock that only tests advance."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.broker.groups.classic_group import NEW_MEMBER_JOIN_TIMEOUT, ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState, Identity, JoinRequest, JoinResult, SyncResult
from aiokproto.error_codes import ErrorCode

SESSION, REBALANCE = 10.0, 60.0
RANGE = (("range", b"range-metadata"),)


class Scene:
    """A group, the time, and the results by waiter."""

    def __init__(self, initial_delay: float = 0.0, max_size: int = 100) -> None:
        ids = count()
        self.now = 1000.0

        def make_id(prefix: str) -> str:
            return f"{prefix}-{next(ids)}"

        self.group = ClassicGroup("g", self.now, initial_delay=initial_delay, max_size=max_size, make_id=make_id)
        self.answers: dict[str, JoinResult | SyncResult] = {}

    def _collect(self) -> None:
        for waiter, result in self.group.drain():
            assert isinstance(waiter, str)
            assert waiter not in self.answers, "a request is answered once"
            self.answers[waiter] = result

    def wait(self, seconds: float) -> None:
        """Advance the time, and tick the group at its deadlines."""
        end = self.now + seconds
        while (deadline := self.group.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.group.tick(self.now)
            self._collect()
        self.now = end

    def join(self, waiter: str, request: JoinRequest | None = None) -> None:
        self.group.join(waiter, request or asking(waiter), self.now)
        self._collect()

    def joined(self, waiter: str) -> JoinResult:
        result = self.answers.pop(waiter)
        assert isinstance(result, JoinResult)
        return result

    def sync(self, waiter: str, joined: JoinResult, assignments: dict[str, bytes] | None = None) -> None:
        self.group.sync(waiter, Identity(joined.member_id, joined.generation), assignments or {}, self.now)
        self._collect()

    def synced(self, waiter: str) -> SyncResult:
        result = self.answers.pop(waiter)
        assert isinstance(result, SyncResult)
        return result

    def heartbeat(self, joined: JoinResult) -> ErrorCode:
        error = self.group.heartbeat(Identity(joined.member_id, joined.generation), self.now)
        self._collect()
        return error

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        error = self.group.leave(member_id, instance_id, self.now)
        self._collect()
        return error

    def stable(self, *names: str) -> dict[str, JoinResult]:
        """Join members and let the leader assign each its own name. Several need an initial delay."""
        for name in names:
            self.join(name)
        self.wait(6.0 if self.group.state is ClassicGroupState.PREPARING_REBALANCE else 0.0)
        results = {name: self.joined(name) for name in names}
        assignments = {result.member_id: name.encode() for name, result in results.items()}
        for name in sorted(names, key=lambda name: results[name].leader == results[name].member_id):
            self.sync(f"sync {name}", results[name], assignments)
        for name in names:
            assert self.synced(f"sync {name}").assignment == name.encode()
        assert self.group.state is ClassicGroupState.STABLE
        return results


def asking(client_id: str, member_id: str = "", instance_id: str | None = None) -> JoinRequest:
    return JoinRequest(
        member_id=member_id,
        instance_id=instance_id,
        protocols=RANGE,
        session_timeout=SESSION,
        rebalance_timeout=REBALANCE,
        client_id=client_id,
        supports_skipping_assignment=True,
    )


def test_a_single_member_joins_syncs_and_heartbeats() -> None:
    scene = Scene()
    scene.join("a")
    joined = scene.joined("a")
    assert (joined.error, joined.generation, joined.protocol, joined.leader) == (0, 1, "range", joined.member_id)
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, b"range-metadata")]
    assert scene.group.state.value == "CompletingRebalance"
    scene.sync("s", joined, {joined.member_id: b"all"})
    assert scene.synced("s") == SyncResult(ErrorCode.NONE, "consumer", "range", b"all")
    assert scene.group.state.value == "Stable"
    assert scene.group.changed, "the assignment has to be written"
    for _ in range(5):
        scene.wait(SESSION - 1)
        assert scene.heartbeat(joined) is ErrorCode.NONE


def test_a_session_expires_without_heartbeats() -> None:
    scene = Scene()
    joined = scene.stable("a")["a"]
    scene.wait(SESSION)
    assert scene.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (scene.group.state, scene.group.generation) == (ClassicGroupState.EMPTY, 2)
    assert scene.group.next_deadline() is None


def test_the_first_rebalance_waits_for_more_members() -> None:
    """KIP-134: each new member restarts the delay, up to the rebalance timeout in all."""
    scene = Scene(initial_delay=3.0)
    scene.join("a")
    scene.wait(2.9)
    assert scene.answers == {}
    scene.join("b")
    scene.wait(3.0)
    assert scene.answers == {}
    scene.wait(0.2)
    a, b = scene.joined("a"), scene.joined("b")
    assert a.generation == b.generation == 1
    assert {a.leader, b.leader} == {a.member_id}
    assert len(a.members) == 2
    assert b.members == (), "only the leader sees the members"


def test_the_initial_rebalance_delay_is_bounded_by_the_rebalance_timeout() -> None:
    scene = Scene(initial_delay=30.0)
    for number in range(12):
        scene.join(f"m{number}")
        scene.wait(10)
        if scene.answers:
            break
    assert scene.now - 1000 <= REBALANCE + 10


def test_a_second_member_causes_a_rebalance() -> None:
    scene = Scene()
    first = scene.stable("a")["a"]
    scene.join("b")
    assert scene.answers == {}
    assert scene.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    scene.join("a again", asking("a", first.member_id))
    again, second = scene.joined("a again"), scene.joined("b")
    assert again.generation == second.generation == 2
    assert again.leader == second.leader == first.member_id
    scene.sync("sb", second)
    assert scene.answers == {}, "a follower waits for the leader"
    scene.sync("sa", again, {second.member_id: b"half"})
    assert scene.synced("sb").assignment == b"half"
    assert scene.synced("sa").assignment == b"", "a member that the leader leaves out gets an empty assignment"


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    scene = Scene()
    first = scene.stable("a")["a"]
    scene.join("b")
    for _ in range(int(REBALANCE / 5)):
        assert scene.heartbeat(first) in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
        scene.wait(5)
    second = scene.joined("b")
    assert (second.generation, second.leader) == (2, second.member_id)
    assert scene.heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    scene = Scene(initial_delay=3.0)
    scene.join("a")
    scene.join("b")
    scene.wait(6.0)
    a, b = scene.joined("a"), scene.joined("b")
    scene.sync("sb", b)
    for _ in range(int(REBALANCE / 5)):
        scene.heartbeat(a)
        scene.wait(5)
    assert scene.synced("sb").error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(scene.group.members) == [b.member_id]


def test_a_rebalance_fails_waiting_syncs() -> None:
    scene = Scene(initial_delay=3.0)
    scene.join("a")
    scene.join("b")
    scene.wait(6.0)
    b = scene.joined("b")
    scene.sync("sb", b)
    scene.join("c")
    assert scene.synced("sb").error is ErrorCode.REBALANCE_IN_PROGRESS
    scene.sync("sb2", b)
    assert scene.synced("sb2").error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_must_join_again_with_its_member_id() -> None:
    """KIP-394: a member id is returned first; it delays the rebalance until its session timeout has passed."""
    scene = Scene()
    request = replace(asking("a"), requires_known_member_id=True)
    scene.join("a", request)
    refusal = scene.joined("a")
    assert refusal.error is ErrorCode.MEMBER_ID_REQUIRED
    assert scene.group.members == {}
    scene.join("a2", replace(request, member_id=refusal.member_id))
    assert scene.joined("a2").generation == 1


def test_an_unused_member_id_expires() -> None:
    scene = Scene()
    first = scene.stable("a")["a"]
    scene.join("b", replace(asking("b"), requires_known_member_id=True))
    refusal = scene.joined("b")
    scene.join("a again", replace(asking("a", first.member_id), protocols=(("range", b"new"),)))
    assert scene.answers == {}, "the rebalance waits for b, which has a member id"
    scene.wait(SESSION)
    assert scene.joined("a again").generation == 2
    scene.join("late", replace(asking("b", refusal.member_id), requires_known_member_id=True))
    assert scene.joined("late").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_need_a_common_protocol() -> None:
    scene = Scene()
    joined = scene.stable("a")["a"]
    for wrong in (
        replace(asking("b"), protocols=(("sticky", b""),)),
        replace(asking("b"), protocol_type="connect"),
        replace(asking("b"), protocols=()),
    ):
        scene.join("b", wrong)
        assert scene.joined("b").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.heartbeat(joined) is ErrorCode.NONE, "there was no rebalance"


def test_members_vote_for_the_protocol() -> None:
    scene = Scene(initial_delay=3.0)
    for name, preferences in {"a": "xyz", "b": "zyx", "c": "zx"}.items():
        scene.join(name, replace(asking(name), protocols=tuple((each, each.encode()) for each in preferences)))
    scene.wait(6.0)
    results = [scene.joined(name) for name in "abc"]
    assert {result.protocol for result in results} == {"z"}
    assert [member.metadata for member in results[0].members] == [b"z"] * 3


def test_joining_again_unchanged_rebalances_only_for_the_leader() -> None:
    """In a stable group a follower gets the current generation; the leader, or new protocols, cause a rebalance."""
    scene = Scene(initial_delay=3.0)
    results = scene.stable("a", "b")
    leader, follower = results["a"], results["b"]
    scene.join("f", asking("b", follower.member_id))
    assert scene.joined("f").generation == leader.generation
    scene.join("l", asking("a", leader.member_id))
    assert scene.group.state is ClassicGroupState.PREPARING_REBALANCE
    scene.join("f2", replace(asking("b", follower.member_id), protocols=(("range", b"new"),)))
    assert scene.joined("l").generation == scene.joined("f2").generation == leader.generation + 1


def test_leaving_causes_a_rebalance_at_once() -> None:
    scene = Scene(initial_delay=3.0)
    results = scene.stable("a", "b")
    assert scene.leave(results["a"].member_id) is ErrorCode.NONE
    assert scene.leave(results["a"].member_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat(results["b"]) is ErrorCode.REBALANCE_IN_PROGRESS
    scene.join("b again", asking("b", results["b"].member_id))
    again = scene.joined("b again")
    assert (again.leader, len(again.members)) == (results["b"].member_id, 1)


def test_a_static_member_restarts_without_a_rebalance() -> None:
    """KIP-345: same instance id, new member id, same assignment; the old member id is fenced."""
    scene = Scene()
    scene.join("a", asking("a", instance_id="one"))
    old = scene.joined("a")
    scene.sync("s", old, {old.member_id: b"mine"})
    scene.synced("s")
    scene.group.changed = False
    scene.join("a2", asking("a", instance_id="one"))
    new = scene.joined("a2")
    assert (new.error, new.generation, new.skip_assignment) == (0, old.generation, True)
    assert new.member_id != old.member_id
    assert scene.group.changed
    scene.sync("s2", new)
    assert scene.synced("s2").assignment == b"mine"
    fenced = Identity(old.member_id, old.generation, "one")
    assert scene.group.heartbeat(fenced, scene.now) is ErrorCode.FENCED_INSTANCE_ID
    scene.join("old", asking("a", old.member_id, "one"))
    assert scene.joined("old").error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_without_kip_814_does_not_learn_that_it_leads() -> None:
    scene = Scene()
    scene.join("a", asking("a", instance_id="one"))
    old = scene.joined("a")
    scene.sync("s", old, {old.member_id: b"mine"})
    scene.join("a2", replace(asking("a", instance_id="one"), supports_skipping_assignment=False))
    new = scene.joined("a2")
    assert (new.leader, new.members, new.skip_assignment) == (old.member_id, (), False)


def test_a_static_member_stays_through_a_rebalance_it_misses() -> None:
    scene = Scene()
    scene.join("a", replace(asking("a", instance_id="one"), session_timeout=1000.0))
    old = scene.joined("a")
    scene.sync("s", old, {old.member_id: b"mine"})
    scene.join("b")
    scene.wait(REBALANCE)
    second = scene.joined("b")
    assert {member.instance_id for member in second.members} == {"one", None}


def test_a_static_member_leaves_by_its_instance_id() -> None:
    scene = Scene()
    scene.join("a", asking("a", instance_id="one"))
    assert scene.leave("", "two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.leave("", "one") is ErrorCode.NONE
    assert scene.group.members == {}


def test_wrong_generations_and_protocols_are_refused() -> None:
    scene = Scene()
    joined = scene.stable("a")["a"]
    assert scene.heartbeat(joined._replace(generation=7)) is ErrorCode.ILLEGAL_GENERATION
    scene.sync("s", joined._replace(generation=0))
    assert scene.synced("s").error is ErrorCode.ILLEGAL_GENERATION
    scene.group.sync("p", Identity(joined.member_id, 1), {}, scene.now, protocol="sticky")
    ((_, result),) = scene.group.drain()
    assert result.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_maximum_group_size_is_enforced() -> None:
    scene = Scene(max_size=1)
    scene.stable("a")
    scene.join("b")
    assert scene.joined("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_commits_are_checked_against_the_member() -> None:
    scene = Scene()
    simple = Identity("", -1)
    assert scene.group.check_commit(simple, scene.now) is ErrorCode.NONE
    scene.join("a")
    joined = scene.joined("a")
    member = Identity(joined.member_id, 1)
    assert scene.group.check_commit(member, scene.now) is ErrorCode.REBALANCE_IN_PROGRESS
    scene.sync("s", joined, {})
    assert scene.group.check_commit(member, scene.now) is ErrorCode.NONE
    assert scene.group.check_commit(simple, scene.now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.group.check_commit(Identity(joined.member_id, 0), scene.now) is ErrorCode.ILLEGAL_GENERATION
    scene.wait(SESSION - 1)
    scene.group.check_commit(member, scene.now)
    scene.wait(SESSION - 1)
    assert scene.heartbeat(joined) is ErrorCode.NONE, "a commit counts as a heartbeat"


def test_a_new_member_that_is_gone_does_not_block_the_group_for_ever() -> None:
    scene = Scene()
    first = scene.stable("a")["a"]
    scene.join("ghost", replace(asking("ghost"), rebalance_timeout=2 * NEW_MEMBER_JOIN_TIMEOUT))
    for _ in range(int(NEW_MEMBER_JOIN_TIMEOUT / 5)):
        scene.heartbeat(first)
        scene.wait(5)
    assert scene.joined("ghost").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_ending_a_group_fails_all_waiting_requests() -> None:
    scene = Scene(initial_delay=3.0)
    scene.join("a")
    scene.group.kill(ErrorCode.NOT_COORDINATOR)
    ((waiter, result),) = scene.group.drain()
    assert (waiter, result.error) == ("a", ErrorCode.NOT_COORDINATOR)
    scene.join("b")
    assert scene.joined("b").error is ErrorCode.COORDINATOR_NOT_AVAILABLE


class GroupMachine(RuleBasedStateMachine):
    """Members do anything at any time: no request is lost, and the group never gets stuck."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(initial_delay=1.0)
        self.known: list[JoinResult] = []
        self.open: dict[str, JoinResult | None] = {}
        self.waiters = count()

    def _take(self) -> None:
        for waiter in [waiter for waiter in self.open if waiter in self.scene.answers]:
            del self.open[waiter]
            result = self.scene.answers.pop(waiter)
            if isinstance(result, JoinResult) and not result.error:
                self.known = [each for each in self.known if each.member_id != result.member_id] + [result]

    def _ticket(self) -> str:
        waiter = f"t{next(self.waiters)}"
        self.open[waiter] = None
        return waiter

    @rule(static=st.booleans(), protocols=st.sampled_from([RANGE, (("x", b""), *RANGE)]))
    def new_member(self, static: bool, protocols: tuple[tuple[str, bytes], ...]) -> None:
        request = replace(asking("c", instance_id="static" if static else None), protocols=protocols)
        self.scene.join(self._ticket(), request)
        self._take()

    @precondition(lambda self: self.known)
    @rule(data=st.data(), metadata=st.sampled_from([b"1", b"2"]))
    def rejoin(self, data: st.DataObject, metadata: bytes) -> None:
        member = data.draw(st.sampled_from(self.known))
        request = replace(asking("c", member.member_id), protocols=(("range", metadata),))
        self.scene.join(self._ticket(), request)
        self._take()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.known))
        self.scene.sync(self._ticket(), member, {each.member_id: b"x" for each in member.members})
        self._take()

    @precondition(lambda self: self.known)
    @rule(data=st.data(), leave=st.booleans())
    def beat_or_leave(self, data: st.DataObject, leave: bool) -> None:
        member = data.draw(st.sampled_from(self.known))
        if leave:
            self.scene.leave(member.member_id)
        else:
            self.scene.heartbeat(member)
        self._take()

    @rule(seconds=st.sampled_from([0.5, 1.0, SESSION, REBALANCE]))
    def time_passes(self, seconds: float) -> None:
        self.scene.wait(seconds)
        self._take()

    @invariant()
    def sane(self) -> None:
        group = self.scene.group
        waiting = {m.join_waiter for m in group.members.values()} | {m.sync_waiter for m in group.members.values()}
        assert set(self.open) == waiting - {None}, "every open request waits at exactly one member"
        assert (group.state is ClassicGroupState.EMPTY) <= (not group.members)
        if group.members:
            assert group.leader in group.members
            assert group.next_deadline() is not None, "whatever a group waits for has a timeout"
        if group.state is ClassicGroupState.STABLE:
            assert not any(member.join_waiter for member in group.members.values())

    def teardown(self) -> None:
        self.scene.wait(10 * NEW_MEMBER_JOIN_TIMEOUT)
        self._take()
        assert self.open == {}
        assert self.scene.group.members == {}
        assert self.scene.group.state is ClassicGroupState.EMPTY


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
