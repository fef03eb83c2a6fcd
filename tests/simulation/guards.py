"""The guards of the client, each with its text: what :mod:`~tests.simulation.mutants` removes."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A guard that is removed.

    Attributes:
        name: What the guard is for.
        file: The module, below the package.
        guard: Its text, which must be there once.
        without: What takes its place.
    """

    name: str
    file: str
    guard: str
    without: str


MUTANTS = (
    Mutant(
        "several batches in flight only to a broker that has acknowledged one",
        "producer/queue.py",
        "not self.leader == self.sent_to == self.confirmed_by",
        "self.leader != self.sent_to",
    ),
    Mutant(
        "nothing to a new leader while the old one has batches",
        "producer/queue.py",
        "not self.leader == self.sent_to == self.confirmed_by",
        "self.confirmed_by is None",
    ),
    Mutant(
        "a failure ends the confirmation",
        "producer/accumulator.py",
        "        batch.last_error = error\n        queue.confirmed_by = None\n",
        "        batch.last_error = error\n",
    ),
    Mutant(
        "a broker may forget an idle producer",
        "producer/queue.py",
        "now - self.sent_at > CONFIRMED_FOR",
        "now < self.sent_at",
    ),
    Mutant(
        "a topic created again is a new one",
        "producer/accumulator.py",
        "            if recreated:\n                queue.confirmed_by = None\n",
        "",
    ),
    Mutant(
        "a retry is in flight alone",
        "producer/queue.py",
        "return not next_is_retry and self.in_flight[0].attempts <= 1",
        "return True",
    ),
    Mutant(
        "batches that come back keep their order",
        "producer/queue.py",
        "self.closed[place].number < batches[0].number",
        "False",
    ),
    Mutant(
        "a failed batch leaves a gap, so the numbers restart",
        "producer/accumulator.py",
        "queue.require_restart(Restart.AFTER_SENT)",
        "pass",
    ),
    Mutant(
        "the numbers restart only when the oldest batch is refused",
        "producer/accumulator.py",
        "if queue.oldest_sent is batch:",
        "if True:",
    ),
    Mutant(
        "a new topic's calls keep their order",
        "producer/call_order.py",
        "        if len(calls) == 1:\n            call.set_result(None)\n",
        "        if not call.done():\n            call.set_result(None)\n        if len(calls) == 1:\n",
    ),
    Mutant(
        "no call overtakes one that waits",
        "producer/buffer.py",
        "ready = self.closed is None and not self._order.waits(topic) and",
        "ready = self.closed is None and",
    ),
    Mutant(
        "an expired batch is not reported as written",
        "producer/responses.py",
        "batches = [batch for batch in batches if not batch.done]",
        "batches = list(batches)",
    ),
    Mutant(
        "batches expire",
        "producer/sender.py",
        "expired = self._accumulator.expire(now)",
        "expired = list[Batch]()",
    ),
    Mutant(
        "a lost answer is asked for again under the same number",
        "producer/queue.py",
        "        if batch.sequence < 0:\n            batch.stamp",
        "        if True:\n            batch.stamp",
    ),
    Mutant(
        "compressing keeps the order of a partition",
        "producer/sink.py",
        "if queued.compressing or self._queued:",
        "if queued.compressing:",
    ),
    Mutant(
        "a broker gets one request until it answers",
        "producer/sink.py",
        "limit = self._settings.limits.in_flight if self._healthy else 1",
        "limit = self._settings.limits.in_flight",
    ),
    Mutant(
        "a broker that fails is tried again after a pause",
        "producer/sink.py",
        "return 0 if self._backoff is not None else limit - self._in_flight",
        "return limit - self._in_flight",
    ),
    Mutant(
        "a cancelled task ends the producer",
        "producer/sender.py",
        "        if task.cancelled():\n            self._fail(",
        "        if task.cancelled():\n            str(",
    ),
    Mutant(
        "waiting for a producer id sets no alarm in the past",
        "producer/sender.py",
        "accumulator.next_expiry() if self._asking_for_id else accumulator.next_deadline()",
        "accumulator.next_deadline()",
    ),
    Mutant(
        "memory of a batch is given back",
        "producer/accumulator.py",
        "        self.used -= batch.reserved\n        return queue",
        "        return queue",
    ),
    Mutant(
        "an answer to what was asked before a seek is dropped",
        "consumer/fetcher.py",
        "if cursor.version != asked.version or cursor.fetch_offset != asked.offset:",
        "if False:",
    ),
    Mutant(
        "a topic created again is not read on",
        "consumer/fetcher.py",
        "return topic_id not in (cursor.topic_id, ZERO_UUID)",
        "return False",
    ),
    Mutant(
        "a fetch session ends with a request that failed",
        "consumer/fetcher.py",
        "                session.failed()\n",
        "",
    ),
    Mutant(
        "a partition that failed is fetched again after a pause",
        "consumer/fetcher.py",
        "            cursor.retry_at = retry_at\n",
        "            cursor.retry_at = 0.0\n",
    ),
    Mutant(
        "a follower that does not serve is left",
        "consumer/fetcher.py",
        "            cursor.replica = None\n        if cursors:",
        "            pass\n        if cursors:",
    ),
    Mutant(
        "a broker that has filled its share is asked for no more",
        "consumer/fetcher.py",
        "if buffered >= self._config.max_partition_bytes:",
        "if False:",
    ),
    Mutant(
        "a failure is no reason for auto_offset_reset",
        "consumer/locator.py",
        "return self._group_failed(cursors, versions, error)",
        "committed = {}",
    ),
    Mutant(
        "an offset that was looked up before a seek is dropped",
        "consumer/locator.py",
        "return versions[cursor] == cursor.version and cursor.fetch_offset is None",
        "return True",
    ),
    Mutant(
        "what was fetched before a reset comes first",
        "consumer/locator.py",
        "if cursor.records or cursor.chunks:",
        "if False:",
    ),
    Mutant(
        "what is in hand is waited for before it is revoked",
        "consumer/engine.py",
        "while not self.assignment.in_hand().keys().isdisjoint(partitions):",
        "while False:",
    ),
    Mutant(
        "nothing is fetched before on_assigned has returned",
        "consumer/engine.py",
        'COMMITTED, held="being assigned"',
        'COMMITTED, held=""',
    ),
    Mutant(
        "nothing that is being revoked is handed out",
        "consumer/engine.py",
        'self.assignment.hold(partitions, "being revoked")',
        "pass",
    ),
    Mutant(
        "an expelled member's partitions are lost, not revoked",
        "consumer/engine.py",
        "expelled = self.member is not None and self.member.expelled",
        "expelled = False",
    ),
    Mutant(
        "commits are one after the other",
        "consumer/engine.py",
        "async with self._turn_to_commit(deadline):",
        "if True:",
    ),
    Mutant(
        "what is in hand is not finished",
        "consumer/assignment.py",
        "hand = self.in_hand() if finished else {}",
        "hand = dict[TopicPartition, int]()",
    ),
    Mutant(
        "what is paused is handed out no more",
        "consumer/assignment.py",
        "cursor.pause()\n                self._interrupt(cursor)",
        "cursor.pause()",
    ),
    Mutant(
        "a member commits what it owns alone",
        "group/coordinator.py",
        "mine = {partition: position for partition, position in offsets.items() if partition in self.owned}",
        "mine = dict(offsets)",
    ),
    Mutant(
        "nothing is committed without a generation",
        "group/coordinator.py",
        "            if self._member.generation < 0:\n",
        "            if False:\n",
    ),
    Mutant(
        "an answer to an earlier generation says nothing of this one",
        "group/membership.py",
        "if code and (generation != self.generation or self.phase is not Phase.STABLE):",
        "if False:",
    ),
    Mutant(
        "what was given up is dealt out again",
        "group/coordinator.py",
        'self._request_rejoin("partitions were given up")',
        "pass",
    ),
    Mutant(
        "a coordinator that does not answer heartbeats is looked up again",
        "group/coordinator.py",
        "error)\n                self._cluster.forget_coordinator(",
        "error)\n                {}.get(",
    ),
)
