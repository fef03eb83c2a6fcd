"""``python -m tests.kafka [--brokers N] [--config name=value ...]`` runs a cluster in the foreground, until Ctrl-C.

``python -m tests.kafka --release 0.10.2.2`` runs one broker of an earlier release.
"""

from __future__ import annotations

import argparse
import signal

from tests.kafka.cluster import KafkaCluster
from tests.kafka.releases import NEWEST, RELEASES, ReleasedKafka


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka", description="Run a cluster of real Kafka brokers.")
    parser.add_argument("--brokers", type=int, default=1, metavar="N", help="how many brokers (default 1)")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="for every broker")
    parser.add_argument("--release", choices=RELEASES, default=NEWEST, help="an earlier release, with one broker")
    arguments = parser.parse_args()
    config = dict(pair.split("=", 1) for pair in arguments.config)
    # Ctrl-C and a plain kill end it in the same way, even while it is still starting.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        earlier = arguments.release != NEWEST
        with ReleasedKafka(arguments.release) if earlier else KafkaCluster(arguments.brokers, config=config) as cluster:
            print(cluster.bootstrap_servers, flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
