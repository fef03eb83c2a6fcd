"""Schedules of many seeds in which the group loses members while they work: nothing that they had is committed."""

from __future__ import annotations

from tests.simulation import identity
from tests.simulation.identity import Committing, Running, Session, Transacting, runs
from tests.simulation.seeds import Workload, guarantees_hold, same_run_again

WORKLOADS = {
    "commits": Workload("runs(Committing)(seed=", identity.schedule, runs(Committing), 25),
    "run": Workload("runs(Running)(seed=", identity.schedule, runs(Running), 25),
    "transactions": Workload("runs(Transacting)(seed=", identity.schedule, runs(Transacting), 25),
    "sessions": Workload("runs(Session)(seed=", identity.schedule, runs(Session), 25),
    "share groups": Workload("run_shares(seed=", identity.schedule, identity.run_shares, 25),
}

test_what_was_lost_is_not_committed = guarantees_hold(WORKLOADS)
test_a_seed_gives_the_same_run_again = same_run_again(__name__, WORKLOADS)
