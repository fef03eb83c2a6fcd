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


class Harness:
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
        """Join members and let the leader assign each its own name. Several members need an initial delay."""
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
    harness = Harness()
    harness.join("a")
    joined = harness.joined("a")
    assert (joined.error, joined.generation, joined.protocol, joined.leader) == (0, 1, "range", joined.member_id)
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, b"range-metadata")]
    assert harness.group.state.value == "CompletingRebalance"
    harness.sync("s", joined, {joined.member_id: b"all"})
    assert harness.synced("s") == SyncResult(ErrorCode.NONE, "consumer", "range", b"all")
    assert harness.group.state.value == "Stable"
    assert harness.group.changed, "the assignment has to be written"
    for _ in range(5):
        harness.wait(SESSION - 1)
        assert harness.heartbeat(joined) is ErrorCode.NONE


def test_a_session_expires_without_heartbeats() -> None:
    harness = Harness()
    joined = harness.stable("a")["a"]
    harness.wait(SESSION)
    assert harness.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (harness.group.state, harness.group.generation) == (ClassicGroupState.EMPTY, 2)
    assert harness.group.next_deadline() is None


def test_the_first_rebalance_waits_for_more_members() -> None:
    """Each new member restarts the delay, up to the rebalance timeout in all (KIP-134)."""
    harness = Harness(initial_delay=3.0)
    harness.join("a")
    harness.wait(2.9)
    assert harness.answers == {}
    harness.join("b")
    harness.wait(3.0)
    assert harness.answers == {}
    harness.wait(0.2)
    a, b = harness.joined("a"), harness.joined("b")
    assert a.generation == b.generation == 1
    assert {a.leader, b.leader} == {a.member_id}
    assert len(a.members) == 2
    assert b.members == (), "only the leader sees the members"


def test_the_initial_rebalance_delay_is_bounded_by_the_rebalance_timeout() -> None:
    harness = Harness(initial_delay=30.0)
    for number in range(12):
        harness.join(f"m{number}")
        harness.wait(10)
        if harness.answers:
            break
    assert harness.now - 1000 <= REBALANCE + 10


def test_a_second_member_causes_a_rebalance() -> None:
    harness = Harness()
    first = harness.stable("a")["a"]
    harness.join("b")
    assert harness.answers == {}
    assert harness.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("a again", asking("a", first.member_id))
    again, second = harness.joined("a again"), harness.joined("b")
    assert again.generation == second.generation == 2
    assert again.leader == second.leader == first.member_id
    harness.sync("sb", second)
    assert harness.answers == {}, "a follower waits for the leader"
    harness.sync("sa", again, {second.member_id: b"half"})
    assert harness.synced("sb").assignment == b"half"
    assert harness.synced("sa").assignment == b"", "a member that the leader leaves out gets an empty assignment"


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    harness = Harness()
    first = harness.stable("a")["a"]
    harness.join("b")
    for _ in range(int(REBALANCE / 5)):
        assert harness.heartbeat(first) in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
        harness.wait(5)
    second = harness.joined("b")
    assert (second.generation, second.leader) == (2, second.member_id)
    assert harness.heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    harness = Harness(initial_delay=3.0)
    harness.join("a")
    harness.join("b")
    harness.wait(6.0)
    a, b = harness.joined("a"), harness.joined("b")
    harness.sync("sb", b)
    for _ in range(int(REBALANCE / 5)):
        harness.heartbeat(a)
        harness.wait(5)
    assert harness.synced("sb").error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(harness.group.members) == [b.member_id]


def test_a_rebalance_fails_waiting_syncs() -> None:
    harness = Harness(initial_delay=3.0)
    harness.join("a")
    harness.join("b")
    harness.wait(6.0)
    b = harness.joined("b")
    harness.sync("sb", b)
    harness.join("c")
    assert harness.synced("sb").error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.sync("sb2", b)
    assert harness.synced("sb2").error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_must_join_again_with_its_member_id() -> None:
    """A member id is returned first, which delays the rebalance until its session timeout has passed (KIP-394)."""
    harness = Harness()
    request = replace(asking("a"), requires_known_member_id=True)
    harness.join("a", request)
    refusal = harness.joined("a")
    assert refusal.error is ErrorCode.MEMBER_ID_REQUIRED
    assert harness.group.members == {}
    harness.join("a2", replace(request, member_id=refusal.member_id))
    assert harness.joined("a2").generation == 1


def test_an_unused_member_id_expires() -> None:
    harness = Harness()
    first = harness.stable("a")["a"]
    harness.join("b", replace(asking("b"), requires_known_member_id=True))
    refusal = harness.joined("b")
    harness.join("a again", replace(asking("a", first.member_id), protocols=(("range", b"new"),)))
    assert harness.answers == {}, "the rebalance waits for b, which has a member id"
    harness.wait(SESSION)
    assert harness.joined("a again").generation == 2
    harness.join("late", replace(asking("b", refusal.member_id), requires_known_member_id=True))
    assert harness.joined("late").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_need_a_common_protocol() -> None:
    harness = Harness()
    joined = harness.stable("a")["a"]
    for wrong in (
        replace(asking("b"), protocols=(("sticky", b""),)),
        replace(asking("b"), protocol_type="connect"),
        replace(asking("b"), protocols=()),
    ):
        harness.join("b", wrong)
        assert harness.joined("b").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.heartbeat(joined) is ErrorCode.NONE, "there was no rebalance"


def test_members_vote_for_the_protocol() -> None:
    harness = Harness(initial_delay=3.0)
    for name, preferences in {"a": "xyz", "b": "zyx", "c": "zx"}.items():
        harness.join(name, replace(asking(name), protocols=tuple((each, each.encode()) for each in preferences)))
    harness.wait(6.0)
    results = [harness.joined(name) for name in "abc"]
    assert {result.protocol for result in results} == {"z"}
    assert [member.metadata for member in results[0].members] == [b"z"] * 3


def test_joining_again_unchanged_rebalances_only_for_the_leader() -> None:
    """A follower gets the current generation of a stable group. The leader, or new protocols, cause a rebalance."""
    harness = Harness(initial_delay=3.0)
    results = harness.stable("a", "b")
    leader, follower = results["a"], results["b"]
    harness.join("f", asking("b", follower.member_id))
    assert harness.joined("f").generation == leader.generation
    harness.join("l", asking("a", leader.member_id))
    assert harness.group.state is ClassicGroupState.PREPARING_REBALANCE
    harness.join("f2", replace(asking("b", follower.member_id), protocols=(("range", b"new"),)))
    assert harness.joined("l").generation == harness.joined("f2").generation == leader.generation + 1


def test_leaving_causes_a_rebalance_at_once() -> None:
    harness = Harness(initial_delay=3.0)
    results = harness.stable("a", "b")
    assert harness.leave(results["a"].member_id) is ErrorCode.NONE
    assert harness.leave(results["a"].member_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(results["b"]) is ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("b again", asking("b", results["b"].member_id))
    again = harness.joined("b again")
    assert (again.leader, len(again.members)) == (results["b"].member_id, 1)


def test_a_static_member_restarts_without_a_rebalance() -> None:
    """The member has the same instance id, a new member id and the same assignment; the old member id is fenced
    (KIP-345)."""
    harness = Harness()
    harness.join("a", asking("a", instance_id="one"))
    old = harness.joined("a")
    harness.sync("s", old, {old.member_id: b"mine"})
    harness.synced("s")
    harness.group.changed = False
    harness.join("a2", asking("a", instance_id="one"))
    new = harness.joined("a2")
    assert (new.error, new.generation, new.skip_assignment) == (0, old.generation, True)
    assert new.member_id != old.member_id
    assert harness.group.changed
    harness.sync("s2", new)
    assert harness.synced("s2").assignment == b"mine"
    fenced = Identity(old.member_id, old.generation, "one")
    assert harness.group.heartbeat(fenced, harness.now) is ErrorCode.FENCED_INSTANCE_ID
    harness.join("old", asking("a", old.member_id, "one"))
    assert harness.joined("old").error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_without_kip_814_does_not_learn_that_it_leads() -> None:
    harness = Harness()
    harness.join("a", asking("a", instance_id="one"))
    old = harness.joined("a")
    harness.sync("s", old, {old.member_id: b"mine"})
    harness.join("a2", replace(asking("a", instance_id="one"), supports_skipping_assignment=False))
    new = harness.joined("a2")
    assert (new.leader, new.members, new.skip_assignment) == (old.member_id, (), False)


def test_a_static_member_stays_through_a_rebalance_it_misses() -> None:
    harness = Harness()
    harness.join("a", replace(asking("a", instance_id="one"), session_timeout=1000.0))
    old = harness.joined("a")
    harness.sync("s", old, {old.member_id: b"mine"})
    harness.join("b")
    harness.wait(REBALANCE)
    second = harness.joined("b")
    assert {member.instance_id for member in second.members} == {"one", None}


def test_a_static_member_leaves_by_its_instance_id() -> None:
    harness = Harness()
    harness.join("a", asking("a", instance_id="one"))
    assert harness.leave("", "two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave("", "one") is ErrorCode.NONE
    assert harness.group.members == {}


def test_wrong_generations_and_protocols_are_refused() -> None:
    harness = Harness()
    joined = harness.stable("a")["a"]
    assert harness.heartbeat(joined._replace(generation=7)) is ErrorCode.ILLEGAL_GENERATION
    harness.sync("s", joined._replace(generation=0))
    assert harness.synced("s").error is ErrorCode.ILLEGAL_GENERATION
    harness.group.sync("p", Identity(joined.member_id, 1), {}, harness.now, protocol="sticky")
    ((_, result),) = harness.group.drain()
    assert result.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_maximum_group_size_is_enforced() -> None:
    harness = Harness(max_size=1)
    harness.stable("a")
    harness.join("b")
    assert harness.joined("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_during_a_rebalance_the_members_that_have_joined_count() -> None:
    """A new member can replace one that hasn't joined, which is then refused and removed."""
    harness = Harness(max_size=2)
    harness.stable("a")
    harness.join("b")
    harness.join("a2", asking("a", "a-0"))
    first, second = harness.joined("a2"), harness.joined("b")
    harness.join("b2", replace(asking("b", second.member_id), protocols=(("range", b"other"),)))
    harness.join("c")
    assert harness.answers == {}, "b has joined, a has not: there is room for one"
    harness.join("d")
    assert harness.joined("d").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.join("b3", asking("b", second.member_id))
    assert harness.joined("b2").error is ErrorCode.REBALANCE_IN_PROGRESS, "joining twice takes no more room"
    harness.join("a3", asking("a", first.member_id))
    assert harness.joined("a3") == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert harness.heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.answers == {}, "as in Kafka, the refusal completes no rebalance"
    harness.wait(REBALANCE)
    joined = {harness.joined(name).member_id for name in ("b3", "c")}
    assert joined == set(harness.group.members) == {second.member_id, *joined}


def test_a_restored_group_above_its_maximum_size_loses_the_members_that_join_last() -> None:
    whole, harness = Harness(initial_delay=3.0), Harness(max_size=1)
    known = whole.stable("a", "b")
    harness.group.restore(
        whole.group.members.values(),
        harness.now,
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader=known["a"].member_id,
    )
    assert harness.heartbeat(known["a"]) is ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("b", asking("b", known["b"].member_id))
    harness.join("a", asking("a", known["a"].member_id))
    assert harness.joined("a").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.wait(REBALANCE)
    assert harness.joined("b").generation == 2
    assert list(harness.group.members) == [known["b"].member_id]


def test_in_a_rebalance_of_a_full_group_the_first_members_to_join_get_the_places() -> None:
    harness = Harness(initial_delay=3.0, max_size=2)
    members = harness.stable("a", "b")
    leader, late = members["a"], members["b"]
    harness.join("a", asking("a", leader.member_id))
    harness.join("c")
    assert "c" not in harness.answers, "one of two places is taken"
    harness.join("d")
    assert harness.joined("d").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.join("b", asking("b", late.member_id))
    assert harness.joined("b") == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert late.member_id not in harness.group.members
    harness.join("a again", asking("a", leader.member_id))
    assert harness.joined("a").error is ErrorCode.REBALANCE_IN_PROGRESS, "a member that waits already keeps its place"
    harness.wait(REBALANCE)
    assert {harness.joined(each).error for each in ("a again", "c")} == {ErrorCode.NONE}


def test_a_rebalance_does_not_wait_for_a_rejected_client() -> None:
    harness = Harness(initial_delay=3.0, max_size=2)
    harness.join("late", replace(asking("late"), requires_known_member_id=True))
    late = harness.joined("late").member_id
    harness.join("a")
    harness.join("b")
    harness.join("late", asking("late", late))
    assert harness.joined("late").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.wait(6.0)
    members = {name: harness.joined(name) for name in ("a", "b")}
    for name, joined in members.items():
        harness.join(name, replace(asking(name, joined.member_id), protocols=(("range", b"other"),)))
    assert {harness.joined(name).generation for name in members} == {2}


def test_commits_are_checked_against_the_member() -> None:
    harness = Harness()
    simple = Identity("", -1)
    assert harness.group.check_commit(simple, harness.now) is ErrorCode.NONE
    harness.join("a")
    joined = harness.joined("a")
    member = Identity(joined.member_id, 1)
    assert harness.group.check_commit(member, harness.now) is ErrorCode.REBALANCE_IN_PROGRESS
    harness.sync("s", joined, {})
    assert harness.group.check_commit(member, harness.now) is ErrorCode.NONE
    assert harness.group.check_commit(simple, harness.now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group.check_commit(Identity(joined.member_id, 0), harness.now) is ErrorCode.ILLEGAL_GENERATION
    harness.wait(SESSION - 1)
    harness.group.check_commit(member, harness.now)
    harness.wait(SESSION - 1)
    assert harness.heartbeat(joined) is ErrorCode.NONE, "a commit counts as a heartbeat"


def test_a_new_member_that_has_left_does_not_block_the_group_forever() -> None:
    harness = Harness()
    first = harness.stable("a")["a"]
    harness.join("ghost", replace(asking("ghost"), rebalance_timeout=2 * NEW_MEMBER_JOIN_TIMEOUT))
    for _ in range(int(NEW_MEMBER_JOIN_TIMEOUT / 5)):
        harness.heartbeat(first)
        harness.wait(5)
    assert harness.joined("ghost").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_ending_a_group_fails_all_waiting_requests() -> None:
    harness = Harness(initial_delay=3.0)
    harness.join("a")
    harness.group.kill(ErrorCode.NOT_COORDINATOR)
    ((waiter, result),) = harness.group.drain()
    assert (waiter, result.error) == ("a", ErrorCode.NOT_COORDINATOR)
    harness.join("b")
    assert harness.joined("b").error is ErrorCode.COORDINATOR_NOT_AVAILABLE


class GroupMachine(RuleBasedStateMachine):
    """Members do anything at any time: no request is lost, and the group never gets stuck."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(initial_delay=1.0)
        self.known: list[JoinResult] = []
        self.open: dict[str, JoinResult | None] = {}
        self.waiters = count()

    def _take(self) -> None:
        for waiter in [waiter for waiter in self.open if waiter in self.harness.answers]:
            del self.open[waiter]
            result = self.harness.answers.pop(waiter)
            if isinstance(result, JoinResult) and not result.error:
                self.known = [each for each in self.known if each.member_id != result.member_id] + [result]

    def _ticket(self) -> str:
        waiter = f"t{next(self.waiters)}"
        self.open[waiter] = None
        return waiter

    @rule(static=st.booleans(), protocols=st.sampled_from([RANGE, (("x", b""), *RANGE)]))
    def new_member(self, static: bool, protocols: tuple[tuple[str, bytes], ...]) -> None:
        request = replace(asking("c", instance_id="static" if static else None), protocols=protocols)
        self.harness.join(self._ticket(), request)
        self._take()

    @precondition(lambda self: self.known)
    @rule(data=st.data(), metadata=st.sampled_from([b"1", b"2"]))
    def rejoin(self, data: st.DataObject, metadata: bytes) -> None:
        member = data.draw(st.sampled_from(self.known))
        request = replace(asking("c", member.member_id), protocols=(("range", metadata),))
        self.harness.join(self._ticket(), request)
        self._take()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.known))
        self.harness.sync(self._ticket(), member, {each.member_id: b"x" for each in member.members})
        self._take()

    @precondition(lambda self: self.known)
    @rule(data=st.data(), leave=st.booleans())
    def beat_or_leave(self, data: st.DataObject, leave: bool) -> None:
        member = data.draw(st.sampled_from(self.known))
        if leave:
            self.harness.leave(member.member_id)
        else:
            self.harness.heartbeat(member)
        self._take()

    @rule(seconds=st.sampled_from([0.5, 1.0, SESSION, REBALANCE]))
    def time_passes(self, seconds: float) -> None:
        self.harness.wait(seconds)
        self._take()

    @invariant()
    def sane(self) -> None:
        group = self.harness.group
        waiting = {m.join_waiter for m in group.members.values()} | {m.sync_waiter for m in group.members.values()}
        assert set(self.open) == waiting - {None}, "every open request waits at exactly one member"
        assert (group.state is ClassicGroupState.EMPTY) <= (not group.members)
        if group.members:
            assert group.leader in group.members
            assert group.next_deadline() is not None, "whatever a group waits for has a timeout"
        if group.state is ClassicGroupState.STABLE:
            assert not any(member.join_waiter for member in group.members.values())

    def teardown(self) -> None:
        self.harness.wait(10 * NEW_MEMBER_JOIN_TIMEOUT)
        self._take()
        assert self.open == {}
        assert self.harness.group.members == {}
        assert self.harness.group.state is ClassicGroupState.EMPTY


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
