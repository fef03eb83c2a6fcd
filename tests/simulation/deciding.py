"""Two-phase commit (KIP-939) under faults: a transaction is committed if and only if that was decided, and only once.

The workload is the same as in :mod:`~tests.simulation.transacting`. Most transactions are prepared. Then the decision
is stored outside Kafka, and carried out by the producer that has prepared the transaction, or by a later one with its
transactional id. Lives end between any two of these steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from aiokproto.broker import Cluster
from aiokproto.errors import DeadlineError, FencedError, TransactionOutcomeUnknownError
from aiokproto.producer import PreparedTransaction, Transaction, TransactionStatus
from aiokproto.simulation import Simulation
from tests.simulation import transacting
from tests.simulation.faults import Fault
from tests.simulation.transacting import Attempt, Life, Workload


class Decisions:
    """The application's database, in which decisions are made, like the database of a transaction manager."""

    def __init__(self) -> None:
        self._prepared: dict[PreparedTransaction, Attempt] = {}
        self._decided: dict[PreparedTransaction, bool] = {}

    def prepared(self, state: PreparedTransaction, attempt: Attempt) -> None:
        """Store that a transaction is prepared."""
        assert state not in self._prepared, f"{state} is {self._prepared[state].name!r}, and {attempt.name!r}"
        self._prepared[state] = attempt

    def decide(self, state: PreparedTransaction, commit: bool) -> bool:
        """Decide, unless there is a decision already. A transaction that wasn't prepared cannot be committed. Return
        the decision."""
        return self._decided.setdefault(state, commit and state in self._prepared)

    def carry_over(self) -> None:
        """Store the decisions in the attempts. A transaction without a decision isn't committed."""
        for state, attempt in self._prepared.items():
            attempt.outcome = self._decided.get(state, False)


class DecidingLife(Life):
    """A producer that prepares its transactions, and carries out the decisions."""

    workload: TwoPhaseWorkload

    async def recover(self) -> bool:
        """Carry out the decision about the transaction that was found. Return whether the producer can continue."""
        try:
            for _ in range(5):
                state = self.producer.prepared_transaction
                if state is None:
                    return True
                commit = self.workload.decisions.decide(state, self.random.random() < 0.5)
                if self._dies():
                    return False
                await self._complete(state, commit)
        except FencedError:
            return not self._expected_fence()
        return False

    async def _end(self, txn: Transaction, attempt: Attempt) -> None:
        if self.random.random() < 0.2:
            await super()._end(txn, attempt)
            return
        state = await self._maybe_cancelled("prepare", txn.prepare())
        if not isinstance(state, PreparedTransaction):
            attempt.outcome = False
            return
        self.workload.decisions.prepared(state, attempt)
        await asyncio.sleep(self.random.choice((0, 0.01, 1.0)))
        if self._dies():
            return
        commit = self.workload.decisions.decide(state, self.random.random() < 0.7)
        await asyncio.sleep(self.random.choice((0, 0.01, 1.0)))
        if self._dies():
            return
        carry_out = self._complete if self.random.random() < 0.5 else self._end_prepared(txn)
        for _ in range(3):
            await carry_out(state, commit)
            # An empty transaction is complete, except that the next epoch may be missing.
            if txn.status is TransactionStatus.COMMITTED or self.producer.prepared_transaction is None:
                return

    def _end_prepared(self, txn: Transaction) -> Any:
        async def carry_out(state: PreparedTransaction, commit: bool) -> None:
            await self._decided(txn.commit() if commit else txn.abort())

        return carry_out

    async def _complete(self, state: PreparedTransaction, commit: bool) -> None:
        other = self.random.choice((None, state._replace(epoch=state.epoch + 1)))
        await self._decided(self.producer.complete_transaction(state if commit else other))

    async def _decided(self, call: Any) -> None:
        try:
            await self._maybe_cancelled("decision", call, result=True)
        except (TransactionOutcomeUnknownError, DeadlineError):
            # The next call, the next transaction or the next life carries out the same decision again.
            pass

    def _dies(self) -> bool:
        self.died = self.random.random() < self.workload.dying
        return self.died


class TwoPhaseWorkload(Workload):
    """What all lives share, with the decisions."""

    life: ClassVar[type[Life]] = DecidingLife
    releases: ClassVar[Sequence[str | None]] = (None,)
    config: ClassVar[Mapping[str, bool]] = {
        "transaction.two.phase.commit.enable": True,
        "unstable.api.versions.enable": True,
    }

    def __init__(self, simulation: Simulation, cluster: Cluster, faults: list[Fault]) -> None:
        super().__init__(simulation, cluster, faults)
        self.decisions = Decisions()
        self.dying = simulation.random.choice((0.0, 0.1, 0.3))
        self.options = {"transaction_two_phase_commit_enable": True}
        # If there is no timeout, only the next life fences a life.
        self.transaction_timeout = 60_000

    def calm(self) -> None:
        """Let all calls and lives end by themselves from now on."""
        super().calm()
        self.dying = 0.0

    def end(self) -> None:
        """Take the decisions as the outcomes of the prepared transactions."""
        self.decisions.carry_over()


def run(seed: int, faults: list[Fault]) -> Simulation:
    """Write, prepare and decide under these faults. Raise AssertionError if a guarantee is violated."""
    return transacting.run(seed, faults, TwoPhaseWorkload)
