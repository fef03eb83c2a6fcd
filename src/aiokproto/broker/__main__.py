"""The embedded broker as a process: ``python -m aiokproto.broker --data-dir D --port P``.

Prints its address once it can be reached, and runs until SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from aiokproto.broker import Cluster
from aiokproto.errors import KafkaError


def main() -> int:
    """Read the command line and run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m aiokproto.broker", description="Kafka in a small process.")
    parser.add_argument("--data-dir", help="keep the data here (default: a temporary directory, removed at the end)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port of the first broker (default: a free one)")
    parser.add_argument("--brokers", type=int, default=1, help="how many brokers (default: %(default)s)")
    parser.add_argument(
        "--auto-create-topics", action="store_true", help="let clients create topics by asking for them"
    )
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started this one")
    try:
        asyncio.run(_serve(parser.parse_args()))
    except (KafkaError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    if arguments.until_stdin_closes:
        await loop.connect_read_pipe(lambda: _Parent(end), sys.stdin)
    async with Cluster(
        brokers=arguments.brokers,
        data_dir=arguments.data_dir,
        host=arguments.host,
        port=arguments.port,
        auto_create_topics=arguments.auto_create_topics,
    ) as cluster:
        sys.stdout.write(f"{cluster.bootstrap_servers}\n")
        sys.stdout.flush()
        await end.wait()


class _Parent(asyncio.Protocol):
    """Notices that the other end of the pipe is gone."""

    def __init__(self, end: asyncio.Event) -> None:
        self._end = end

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.set()


if __name__ == "__main__":
    sys.exit(main())
