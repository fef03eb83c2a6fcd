"""A cluster client's statistics and health, read from its parts. No I/O."""

from __future__ import annotations

from aiokproto.cluster.metadata import MetadataUpdater
from aiokproto.cluster.pool import Pool
from aiokproto.config import ClusterConfig
from aiokproto.errors import KafkaError
from aiokproto.observe.health import Findings
from aiokproto.observe.observers import ClusterObserver
from aiokproto.observe.stats import BrokerStats, ClientStats, Durations


def client_stats(
    config: ClusterConfig,
    pool: Pool,
    metadata: MetadataUpdater,
    observer: ClusterObserver,
    instance_id: str,
    now: float,
) -> ClientStats:
    """Return the statistics at ``now`` (s, the loop's clock)."""
    brokers = {}
    for node, seen in observer.nodes.items():
        failures, error = pool.failures(node)
        brokers[node] = BrokerStats(
            node=node,
            address=pool.address(node),
            connections=pool.connections(node),
            connections_opened=seen.opened,
            connections_closed=seen.closed,
            connection_failures=seen.failed,
            failures_in_a_row=failures,
            last_error="" if error is None else str(error),
            requests=seen.requests,
            request_errors=seen.errors,
            bytes_sent=seen.bytes_sent,
            bytes_received=seen.bytes_received,
            latency=Durations.of(seen.latency),
            throttled=Durations.of(seen.throttle),
        )
    return ClientStats(
        client_id=config.client_id,
        client_instance_id=instance_id,
        brokers=brokers,
        metadata_age=None if metadata.updated_at is None else now - metadata.updated_at,
        metadata_refreshes=observer.refreshes,
        metadata_failures=observer.failed_refreshes,
        retries=observer.retries,
    )


def client_findings(
    config: ClusterConfig,
    pool: Pool,
    metadata: MetadataUpdater,
    close_error: KafkaError | None,
    now: float,
    *,
    ended: bool,
) -> Findings:
    """Return what is wrong at ``now`` (s, the loop's clock).

    ``close_error`` says why calls fail; None if they don't.
    """
    findings = Findings()
    if close_error is not None:
        findings.failed.append(str(close_error))
        findings.ended = ended
        # Anything else would only be a consequence of this.
        return findings
    brokers = metadata.snapshot.brokers
    unreachable = [node for node in brokers if pool.failures(node)[0]]
    # An open connection proves that there is a broker.
    reached = any(pool.connections(node) for node in brokers)
    if metadata.failing is not None:
        since, error = metadata.failing
        text = f"no broker has sent metadata for {now - since:.0f} s: {error}"
        (findings.degraded if reached else findings.failed).append(text)
    for node in unreachable:
        count, last = pool.failures(node)
        text = f"{pool.address(node)} cannot be reached ({count} failures in a row): {last}"
        (findings.failed if len(unreachable) == len(brokers) and not reached else findings.degraded).append(text)
    # A refresh starts at that age, and may take a request timeout before it tries the next broker.
    limit = config.metadata_max_age + config.request_timeout
    if metadata.updated_at is not None and now - metadata.updated_at > limit:
        findings.degraded.append(f"the metadata is {now - metadata.updated_at:.0f} s old")
    return findings
