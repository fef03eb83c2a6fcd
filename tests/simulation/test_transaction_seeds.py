"""Transactions, and exactly-once sessions, under the faults of many seeds: their guarantees hold in all of them."""

from __future__ import annotations

from tests.simulation import deciding, exactly_once, transacting
from tests.simulation.seeds import Workload, guarantees_hold, same_run_again

WORKLOADS = {
    "transactions": Workload("transacting.run(seed=", transacting.schedule, transacting.run, 8),
    "two-phase commit": Workload("deciding.run(seed=", transacting.schedule, deciding.run, 25),
    "exactly once": Workload("exactly_once.run(seed=", exactly_once.schedule, exactly_once.run, 25),
}

test_transactions = guarantees_hold(WORKLOADS)
test_a_seed_gives_the_same_run_again = same_run_again(__name__, WORKLOADS)
