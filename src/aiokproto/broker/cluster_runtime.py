"""The state that all nodes of a running cluster share: metadata, logs, coordinators, security, and timers for periodic
work.

``Cluster`` is the public API and owns the sockets. ``ClusterRuntime`` owns everything else, and exists from ``start()``
to ``close()``. Its parts must be created and closed in order: logs are opened before the coordinators read them, and
background tasks end before logs are closed.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from aiokproto.broker.clock import Clock, Timer
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.log.directory_lock import DirectoryLock
from aiokproto.broker.log.private_files import make_directory, open_to_others
from aiokproto.broker.metadata.cluster_state import ClusterState, Node
from aiokproto.broker.metadata.internal_topics import read_internal_topic
from aiokproto.broker.metadata.log_manager import LogManager
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC, Partition, Topic
from aiokproto.broker.opening import OpeningThread
from aiokproto.broker.security.security_state import SecurityState
from aiokproto.broker.security.settings import Security
from aiokproto.broker.security.tls import server_context
from aiokproto.broker.share.coordinator import ShareCoordinator
from aiokproto.broker.share.manager import SharePartitionManager
from aiokproto.broker.telemetry import ClientTelemetry
from aiokproto.broker.transactions.coordinator import TransactionCoordinator

log = logging.getLogger("aiokproto.broker")


class ClusterRuntime:
    """The shared parts of a running cluster.

    Attributes:
        options: The brokers' options.
        clock: The brokers' clock.
        state: Nodes, topics, leaders and logs.
        groups: The group coordinator.
        transactions: The transaction coordinator.
        share_states: The share coordinator: the persisted state of share partitions.
        shares: The share partitions in memory.
        security: ACLs, credentials, delegation tokens and quotas.
        tls: The TLS context of the listeners, or None if they don't use TLS.
        opening: The thread that opens batches and writes the security state.
        log_manager: Retention, compaction, flushing and checkpoints.
        telemetry: Client metrics: subscriptions and pushes.
    """

    def __init__(
        self,
        data_dir: Path | None,
        nodes: dict[int, Node],
        options: BrokerOptions,
        clock: Clock,
        security: Security,
    ) -> None:
        """Open the data directory, or a temporary directory if None. :meth:`close` removes the temporary directory.

        Raises:
            ConfigurationError: Another process is using ``data_dir``, or its files weren't written by a broker.
            OSError: ``data_dir`` can't be read or written.
        """
        self.options = options
        self.clock = clock
        self.tls = server_context(security, options)
        self._timers: dict[str, Timer] = {}
        self._coordinators_started = False
        self._temporary = data_dir is None
        self._root = data_dir or Path(tempfile.mkdtemp(prefix="aiokproto-broker-"))
        make_directory(self._root)
        if mode := open_to_others(self._root):
            log.warning(
                "data_dir: other users of this machine have access to %s, as its mode is %s: chmod go-rwx, unless this"
                " is what you want",
                self._root,
                mode,
            )
        # Take the lock before reading anything, because another process may be writing.
        self._lock = DirectoryLock(self._root)
        try:
            self.opening = OpeningThread()
            self.security = SecurityState(self._root, security, options, clock, self.opening)
            self.state = ClusterState(self._root, nodes, options, clock)
        except BaseException:
            self._release_directory()
            raise
        self.log_manager = LogManager(self.state, self.opening)
        self.telemetry = ClientTelemetry(clock)
        self.share_states = ShareCoordinator(self.state)
        self.groups = GroupCoordinator(self.state, self.share_states)
        self.shares = SharePartitionManager(self.state, self.share_states, self.opening)
        self.transactions = TransactionCoordinator(self.state, self.groups)
        self.share_states.on_reset = self.shares.remove
        self.state.runtime = self
        # A temporary directory doesn't outlive the process, so there's no point in flushing it.
        if not self._temporary:
            self.state.log_manager = self.log_manager

    async def read(self) -> None:
        """Read the coordinators' stored state. Call this before anything is served. If cancelled, close the runtime.

        Raises:
            CorruptRecordError, UnsupportedCompressionError: A batch in an internal topic can't be read.
        """
        for coordinator in (self.share_states, self.groups, self.transactions):
            for partition, take in coordinator.reading():
                await read_internal_topic(partition, take, self.opening)

    def start(self) -> None:
        """Start the coordinators and periodic work, after :meth:`read`. The nodes must be up, so partitions have
        leaders."""
        # Start the group coordinator first: transactions commit offsets to groups.
        self.groups.start()
        self.transactions.start()
        # The initial elections happen before this line, because they must not reload what start() has loaded.
        self._coordinators_started = True
        self.log_manager.start()
        self._every("delegation.token.expiry.check.interval.ms", self.security.sweep)
        self._every("log.retention.check.interval.ms", self.log_manager.retain)
        self._every("log.cleaner.backoff.ms", self.log_manager.clean)
        self._every("log.flush.offset.checkpoint.interval.ms", self.log_manager.checkpoint)
        self._every("offsets.retention.check.interval.ms", self.groups.expire)
        self._every("sasl.oauthbearer.jwks.endpoint.refresh.ms", self.security.refresh_keys)
        self._every("share.coordinator.cold.partition.snapshot.interval.ms", self.share_states.snapshot)
        self._every("share.coordinator.state.topic.prune.interval.ms", self.share_states.prune)
        self._every("transaction.remove.expired.transaction.cleanup.interval.ms", self.transactions.expire)

    async def close(self, clean: bool) -> None:
        """Stop periodic work and close the logs. If cancelled, the logs are still closed.

        Args:
            clean: Flush the logs and mark a clean shutdown. False closes the files as they are, as a crash would.
        """
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        try:
            try:
                # This needs the thread, which writes the security state, so the thread is stopped later.
                await self.security.close()
            finally:
                # Stop the thread before closing the manager, which waits for a running compaction step, but not for
                # steps that are waiting for the thread.
                self.opening.stop()
            await self.shares.stop()
            await self.log_manager.close()
            await self.opening.ended()
        finally:
            # Close coordinators before logs, because their timers would append to a closed log.
            self.transactions.close()
            self.groups.close()
            self.shares.close()
            if clean and not self._temporary:
                self.state.close()
            else:
                self.state.close_handlers()
            self._release_directory()

    def leader_changed(self, partition: Partition) -> None:
        """Notify the coordinators of a partition's new leader. Each coordinator ignores partitions that aren't its
        own."""
        if not self._coordinators_started:
            return
        if partition.topic == OFFSETS_TOPIC:
            self.groups.leader_changed(partition)
        for coordinator in (self.transactions, self.share_states, self.shares):
            coordinator.leader_changed(partition)

    def topic_deleted(self, topic: Topic) -> None:
        """Notify the coordinators of a deleted topic."""
        for coordinator in (self.groups, self.transactions, self.share_states, self.shares):
            coordinator.topic_deleted(topic)

    def _every(self, option: str, act: Callable[[], None]) -> None:
        def fire() -> None:
            # Schedule the next run first, so an exception in this run doesn't end the periodic work.
            self._every(option, act)
            act()

        self._timers[option] = self.clock.call_at(self.clock.time() + self.options.seconds(option), fire)

    def _release_directory(self) -> None:
        self._lock.release()
        if self._temporary:
            shutil.rmtree(self._root, ignore_errors=True)
