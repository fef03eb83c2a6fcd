"""Random schedules of drivers, attempts and faults: everything that Spark has committed is there once."""

from __future__ import annotations

import pytest

from aiokproto.broker import Cluster
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.simulation import Simulation
from tests.simulation import spark_sink
from tests.simulation.seeds import Workload, check_block, in_blocks, trace

WORKLOAD = Workload("spark_sink.run(seed=", spark_sink.schedule, spark_sink.run, 8)


@in_blocks
def test_the_rows_of_committed_batches_are_visible_once(block: int) -> None:
    check_block(WORKLOAD, block)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (1, 2))])
def test_a_seed_gives_the_same_run_again(seed: int) -> None:
    assert trace(WORKLOAD, seed) == trace(WORKLOAD, seed)


def test_a_state_topic_whose_policy_cannot_be_seen_is_used_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1, auto_create_topics=False) as cluster:
            query = spark_sink.Query(simulation, cluster, two_phase=False)
            query.calm()
            with cluster.faults.fail(DescribeConfigsRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                await query._process(lambda coordinator: coordinator.plan(False))

    simulation.run(main())
    assert "its cleanup.policy, which must be compact, could not be checked: TOPIC_AUTHORIZATION" in caplog.text
