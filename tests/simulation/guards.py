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
        "queue.require_restart(SequenceRestart.AFTER_SEQUENCED)",
        "pass",
    ),
    Mutant(
        "the numbers restart only when the oldest batch is refused",
        "producer/accumulator.py",
        "if queue.oldest_sequenced is batch:",
        "if True:",
    ),
    Mutant(
        "a new topic's calls keep their order",
        "producer/append_order.py",
        "        if len(calls) == 1:\n            call.set_result(None)\n",
        "        if not call.done():\n            call.set_result(None)\n        if len(calls) == 1:\n",
    ),
    Mutant(
        "no call overtakes one that waits",
        "producer/buffer.py",
        "ready = is_open and not self._order.waits(topic) and",
        "ready = is_open and",
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
        "expired = list[ProducerBatch]()",
    ),
    Mutant(
        "a batch whose response was lost is sent again under the same sequence number",
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
        "return self._backoff is None and self._in_flight < limit",
        "return self._in_flight < limit",
    ),
    Mutant(
        "a cancelled task ends the producer",
        "producer/sender.py",
        "        if task.cancelled():\n            self.fail(",
        "        if task.cancelled():\n            str(",
    ),
    Mutant(
        "waiting for a producer id sets no timer in the past",
        "producer/sender.py",
        "accumulator.next_expiry() if self._acquiring_id else accumulator.next_deadline()",
        "accumulator.next_deadline()",
    ),
    Mutant(
        "memory of a batch is given back",
        "producer/accumulator.py",
        "        self.used -= batch.reserved\n        return queue",
        "        return queue",
    ),
    Mutant(
        "a response to a fetch from before a seek is dropped",
        "consumer/fetch_response.py",
        "return cursor.version == wanted.version and cursor.fetch.offset == wanted.offset",
        "return True",
    ),
    Mutant(
        "a topic created again is not read on",
        "consumer/fetcher.py",
        "return topic_id not in (fetch.topic_id, ZERO_UUID)",
        "return False",
    ),
    Mutant(
        "a fetch session ends with a request that failed",
        "consumer/fetch_session.py",
        "        self._epoch = _FULL\n        if not known:",
        "        if not known:",
    ),
    Mutant(
        "a broker that failed gets the next request after a pause",
        "consumer/broker_fetcher.py",
        "            self.retry_at = asyncio.get_running_loop().time() + self._cluster.backoff(self._failures)\n",
        "            self.retry_at = 0.0\n",
    ),
    Mutant(
        "a partition that failed is fetched again after a pause",
        "consumer/fetch_state.py",
        "        self.retry_at = retry_at\n",
        "        self.retry_at = 0.0\n",
    ),
    Mutant(
        "a follower that does not serve is left",
        "consumer/fetch_response.py",
        "        cursor.fetch.replica = None\n        if code is",
        "        if code is",
    ),
    Mutant(
        "a follower that cannot be reached is left",
        "consumer/broker_fetcher.py",
        "            cursor.fetch.replica = None\n            self._handler.place(cursor)\n",
        "            self._handler.place(cursor)\n",
    ),
    Mutant(
        "a broker whose buffered responses reach the limit gets no more fetches",
        "consumer/broker_fetcher.py",
        "elif self._buffered.waiting >= self._config.max_partition_bytes:",
        "elif False:",
    ),
    Mutant(
        "a partition whose position moved is fetched from its new offset",
        "consumer/broker_fetcher.py",
        "        for partition in moved:\n            self._changed[partition] = None\n",
        "        for partition in moved:\n",
    ),
    Mutant(
        "a failure is no reason for auto_offset_reset",
        "consumer/position_resolver.py",
        "return self._group_failed(lookups, error)",
        "committed = {}",
    ),
    Mutant(
        "an offset that was looked up before a seek is dropped",
        "consumer/position_resolver.py",
        "return cursor.lookup is lookups[cursor] and cursor.unresolved",
        "return True",
    ),
    Mutant(
        "what was fetched before a reset comes first",
        "consumer/position_resolver.py",
        "        if cursor.buffer:\n            return False\n",
        "",
    ),
    Mutant(
        "the processed record is waited for before it is revoked",
        "consumer/rebalancing.py",
        "while not self._lost and self._assignment.is_busy(partitions):",
        "while False:",
    ),
    Mutant(
        "nothing is fetched before on_assigned has returned",
        "consumer/rebalancing.py",
        'COMMITTED, held="being assigned"',
        'COMMITTED, held=""',
    ),
    Mutant(
        "nothing that is being revoked is delivered",
        "consumer/rebalancing.py",
        '        self._assignment.hold(partitions, "being revoked")\n',
        "",
    ),
    Mutant(
        "a removed member's partitions are lost, not revoked",
        "consumer/rebalancing.py",
        "kind = ChangeKind.LOST if self._lost else ChangeKind.REVOKE",
        "kind = ChangeKind.REVOKE",
    ),
    Mutant(
        "nothing is delivered while the session is unconfirmed",
        "consumer/rebalancing.py",
        "self._assignment.hold([each for each, cursor in cursors if not cursor.held], UNCONFIRMED)",
        "pass",
    ),
    Mutant(
        "commits are one after the other",
        "group/commits.py",
        "            await self._turn.acquire()\n",
        "            self._turn._locked = True\n",
    ),
    Mutant(
        "what is processed is not finished",
        "consumer/assignment.py",
        "            first = self.being_processed()\n",
        "            first = dict[TopicPartition, int]()\n",
    ),
    Mutant(
        "what is paused is delivered no more",
        "consumer/assignment.py",
        "            if paused:\n                self._interrupt(cursor)\n",
        "            if paused:\n                pass\n",
    ),
    Mutant(
        "a member commits what it owns alone",
        "group/commits.py",
        "while mine := {each: offsets[each] for each in offsets if each in kept and each in self._member.owned}:",
        "while mine := dict(offsets):",
    ),
    Mutant(
        "a refused commit is not repeated for what others may have owned since",
        "group/commits.py",
        "            kept -= partitions\n",
        "            kept -= set()\n",
    ),
    Mutant(
        "nothing is committed without a generation",
        "group/commits.py",
        "                if identity.generation < 0:\n",
        "                if False:\n",
    ),
    Mutant(
        "an answer to an earlier generation says nothing of this one",
        "group/membership.py",
        "return generation == self.generation and self.phase is Phase.STABLE",
        "return True",
    ),
    Mutant(
        "what was given up is assigned again",
        "group/rebalance.py",
        '            self.rejoin("partitions were given up")\n',
        "            pass\n",
    ),
    Mutant(
        "a coordinator that does not answer is looked up again",
        "cluster/coordinator_requests.py",
        "self._cluster.forget_coordinator(self._kind, self.key)",
        "pass",
    ),
    Mutant(
        "what a response leaves out is not known",
        "cluster/answers.py",
        "        refuse_parts(part, given, above, version, answer.missing)\n",
        "        refuse_parts(part, given, above, version, ErrorCode.NONE)\n",
    ),
    Mutant(
        "EndTxn waits for the records in flight",
        "producer/transaction_manager.py",
        "            await wait_all([batch.outcome for batch in self._buffer.send_all()], None)\n",
        "",
    ),
    Mutant(
        "EndTxn waits for the requests that add something",
        "producer/transaction_manager.py",
        "        async with self._sending:\n            # A transaction without any request",
        "        if True:\n            # A transaction without any request",
    ),
    Mutant(
        "a new epoch after a request without a response",
        "producer/transactional_id.py",
        "        self.request_lost = True\n",
        "        self.request_lost = False\n",
    ),
    Mutant(
        "a failed batch fails the transaction",
        "producer/transaction_manager.py",
        "            self._needs_epoch = True\n        self.fail(error)\n",
        "            self._needs_epoch = True\n",
    ),
    Mutant(
        "offsets of a cancelled call fail the transaction",
        "producer/transaction_manager.py",
        "            self.fail_of(session, TransactionAbortedError(",
        "            str(TransactionAbortedError(",
    ),
    Mutant(
        "no more partitions are added to a failed transaction",
        "producer/transaction_manager.py",
        "return bool(self._to_add) and not self._adding and self._can_add",
        "return bool(self._to_add) and not self._adding",
    ),
    Mutant(
        "a commit in doubt is repeated as it was",
        "producer/transaction_manager.py",
        "self._start_end(commit=self.state is TransactionState.COMMITTING)",
        "self._start_end(commit=False)",
    ),
    Mutant(
        "a commit that was refused is not called committed",
        "producer/transaction_manager.py",
        "if commit and not self._committed:",
        "if commit and self._committed is None:",
    ),
    Mutant(
        "a request in flight at the deadline may be executed later",
        "cluster/coordinator_requests.py",
        "                    self._lost()\n                    raise\n",
        "                    raise\n",
    ),
    Mutant(
        "an empty prepared transaction has a name of its own",
        "producer/transaction_manager.py",
        "elif self.prepared is not None:",
        "elif False:",
    ),
    Mutant(
        "a transaction ends once",
        "producer/transaction_manager.py",
        "        if self.state in (TransactionState.OPEN, TransactionState.PREPARED):\n            self._session",
        "        if True:\n            self._session",
    ),
    Mutant(
        "after an abort the records come again",
        "exactly_once.py",
        "            batch.progress.rewind()\n",
        "            pass\n",
    ),
    Mutant(
        "a batch whose loop was left is not committed",
        "exactly_once.py",
        "finished=batch.reader is reader",
        "finished=True",
    ),
    Mutant(
        "a lost partition is not committed",
        "consumer/progress.py",
        "        if lost := self.lost:\n",
        "        if (lost := self.lost) and not lost:\n",
    ),
    Mutant(
        "a record of before a loss is not one of after it",
        "consumer/assignment.py",
        "if cursor is None or what._ownership is cursor.ownership:",
        "if True:",
    ),
    Mutant(
        "what was lost is not being processed",
        "consumer/assignment.py",
        "            if self.delivered_by(record) is not None:\n",
        "            if True:\n",
    ),
    Mutant(
        "calls without records are refused after a loss",
        "consumer/losses.py",
        "            if cursor.outstanding:\n",
        "            if False:\n",
    ),
    Mutant(
        "a loss that was reported counts until the next request",
        "consumer/losses.py",
        "        self._reported.update(self.offsets.keys() & set(partitions))\n",
        "        self._reported.update(self.offsets.keys() & set(partitions))\n        self.requested()\n",
    ),
    Mutant(
        "a loss counts until it was reported",
        "consumer/losses.py",
        "        if self._reported:\n            for partition in self._reported:\n",
        "        if self.offsets:\n            for partition in list(self.offsets):\n",
    ),
    Mutant(
        "each attempt to commit in a transaction looks at who owns the partitions",
        "producer/transaction_requests.py",
        "        group = self._sent.identity()\n",
        '        group = self._group = getattr(self, "_group", None) or self._sent.identity()\n',
    ),
    Mutant(
        "a record is delivered while its lock is held",
        "share/reader.py",
        "if now >= lock.deadline or lock.acquired.lost is not None:",
        "if False:",
    ),
    Mutant(
        "what a lost session has acquired is lost",
        "share/broker_session.py",
        "            self._owner.acks_ended(each.lose(error))\n",
        "            pass\n",
    ),
    Mutant(
        "what was acquired from a former leader is lost",
        "share/fetcher.py",
        "[key for key in session.holds if leaders.get(key, node) != node]",
        "[]",
    ),
    Mutant(
        "a lock counts from when it was requested",
        "share/broker_session.py",
        "AcquisitionLock(acquired, sent_at, sent_at, self._lock_duration)",
        "AcquisitionLock(acquired, sent_at + 5, sent_at + 5, self._lock_duration)",
    ),
    Mutant(
        "a fetch is sent when records are wanted",
        "share/engine.py",
        "not (reader.waiting or (reader.unmet and reader.requests != served))",
        "reader.requests == served",
    ),
    Mutant(
        "what is revoked is reported afterwards",
        "group/reconciliation.py",
        "            await how(items)\n            self._membership.give_up(items)\n",
        "            self._membership.give_up(items)\n            await how(items)\n",
    ),
    Mutant(
        "a fenced member loses what it owned",
        "group/reconciliation.py",
        "        await self._release()\n        if",
        "        self._membership.give_up(self._membership.owned)\n        if",
    ),
    Mutant(
        "a commit ends before the first record that run() has not finished",
        "consumer/assignment.py",
        "first = self.handling.unfinished()",
        "first = {}",
    ),
    Mutant(
        "after run() each partition continues at its first unfinished record",
        "consumer/running/runner.py",
        "self._assignment.seek(partition, unfinished[partition])",
        "pass",
    ),
    Mutant(
        "nothing of a partition is handled while calls from before run",
        "consumer/running/runner.py",
        "self._scheduler.block(backlog, cursor.partition in self._leaving)",
        "self._scheduler.block(backlog, False)",
    ),
    Mutant(
        "a revocation waits for handlers",
        "consumer/assignment.py",
        "return self.handling.is_busy(partitions)",
        "return False",
    ),
    Mutant(
        "handlers of lost partitions are cancelled at once",
        "consumer/running/runner.py",
        "            if partition not in self._assignment.cursors:\n",
        "            if False:\n",
    ),
    Mutant(
        "the drain of a revocation is limited",
        "consumer/running/runner.py",
        "at = min(self._loop.time() + self._plan.drain_timeout, deadline)",
        "at = deadline",
    ),
    Mutant(
        "a run that takes no more records is not one whose application has stopped",
        "consumer/engine.py",
        "(handling is not None and handling.full)",
        "False",
    ),
    Mutant(
        "a call that is cancelled has not failed, whatever it raises",
        "running/runner.py",
        'if why in ("", _TIMED_OUT):',
        "if True:",
    ),
    Mutant(
        "a call that has failed, and will be made again, has ended",
        "running/runner.py",
        "        self._scheduler.postpone(work)\n        self._relieve(work.backlog)\n",
        "        self._scheduler.postpone(work)\n",
    ),
    Mutant(
        "that a call took too long says nothing of who cancels its dead letter",
        "running/runner.py",
        'why, work.cancelled = work.cancelled, ""',
        "why = work.cancelled",
    ),
    Mutant(
        "nothing starts once a run is being ended",
        "running/scheduler.py",
        "if self.stopped or self.running >= self.limits.running:",
        "if self.running >= self.limits.running:",
    ),
    Mutant(
        "records of before a seek are not handled after it",
        "consumer/running/runner.py",
        "            if backlog.source != cursor.version:\n                self._forget(backlog)\n            else:\n",
        "            if True:\n",
    ),
    Mutant(
        "requests wait while a session is renewed",
        "net/authentication.py",
        "self._connection.hold, self._begin_renewal)",
        "self._begin_renewal)",
    ),
    Mutant(
        "a session is renewed before it ends",
        "net/authentication.py",
        "lifetime * uniform(*_RENEWED)",
        "lifetime * 2 * uniform(*_RENEWED)",
    ),
    Mutant(
        "requests go on once a session is renewed",
        "net/authentication.py",
        "            self._connection.release()\n",
        "            pass\n",
    ),
    Mutant(
        "a connection whose session cannot be renewed is closed",
        "net/authentication.py",
        "            self._connection.close(lost)\n",
        "            pass\n",
    ),
    Mutant(
        "the renewal of a session has a deadline",
        "net/authentication.py",
        "peer, until = self._connection.peer, asyncio.get_running_loop().time() + self._timeout",
        'peer, until = self._connection.peer, float("inf")',
    ),
    Mutant(
        "an expired token is not used",
        "security/token_cache.py",
        "token.expires_at is not None and _now() < token.expires_at else None",
        "token.expires_at is not None else None",
    ),
    Mutant(
        "a rejected token is not used again",
        "security/token_cache.py",
        "        if self._token is token:\n            self._token = None\n",
        "        str(token)\n",
    ),
    Mutant(
        "connections that need a token share one request",
        "security/token_cache.py",
        "if fetch is None or fetch.loop is not loop or fetch.task.done():",
        "if True:",
    ),
    Mutant(
        "who leaves does not end the request that others wait for",
        "security/token_cache.py",
        "            if not fetch.waiters:\n",
        "            if True:\n",
    ),
    Mutant(
        "a token that cannot be replaced is used until it expires",
        "security/token_cache.py",
        "            return held\n\n    def discard",
        "            raise\n\n    def discard",
    ),
    Mutant(
        "a session is renewed with a newer token",
        "security/token_cache.py",
        "self._retry_at if held is replaced else self._refresh_at",
        "self._refresh_at",
    ),
)
