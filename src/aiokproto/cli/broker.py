"""The embedded broker as a process: ``aiokproto broker --data-dir D --port P``.

Prints its address once clients can connect, and runs until SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Sequence

from aiokproto.broker import Cluster, Security
from aiokproto.broker.handlers.served_apis import markdown
from aiokproto.broker.security.settings import PROTOCOLS
from aiokproto.cli.main import interruptible
from aiokproto.cli.secret_files import pairs
from aiokproto.errors import ConfigurationError, KafkaError

_EPILOG = """\
The first line of output is the address for clients, printed once they can connect.

exit codes: 0 ended by SIGINT or SIGTERM, 1 it could not run, 2 the command line is wrong, 130 ended by SIGINT before it
served
"""


@interruptible
def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run the broker. Return the exit code."""
    options = _parser().parse_args(argv)
    if options.apis:
        sys.stdout.write(markdown())
        return 0
    try:
        cluster = Cluster(
            brokers=options.brokers,
            data_dir=options.data_dir,
            host=options.host,
            advertised_host=options.advertised_host,
            port=options.port,
            auto_create_topics=options.auto_create_topics,
            config={**options.config_file, **_without_repeats(options.config)},
            as_version=options.as_version,
            security=Security(
                options.security_protocol,
                users=options.users_file,
                unsecured_tokens=options.unsecured_tokens,
                sasl_oauth_allow_http=options.sasl_oauth_allow_http,
            ),
        )
    except ConfigurationError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    try:
        asyncio.run(_serve(cluster, options.topic, options.until_stdin_closes))
    except (KafkaError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aiokproto broker",
        description="Kafka in a small process.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data-dir", metavar="D", help="data directory (default: a temporary one, removed at the end)")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--advertised-host", metavar="H", help="host that clients are given (default: that of --host)")
    add(
        "--port",
        type=int,
        default=0,
        metavar="P",
        help="port of the first broker; the others use the next ones (default: free ports)",
    )
    add("--brokers", type=int, default=1, metavar="N", help="number of brokers (default: %(default)s)")
    _add_options_of_kafka(parser)
    add(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="create this topic if it does not exist",
    )
    add(
        "--auto-create-topics",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="create a topic when a client requests its metadata (default: yes, as Kafka does)",
    )
    add("--as-version", metavar="RELEASE", help='serve only the API versions of this Kafka release, such as "2.8"')
    add("--apis", action="store_true", help="print the served APIs and versions, and exit")
    add("--until-stdin-closes", action="store_true", help="exit when stdin is closed, as when the parent process ends")
    return parser


def _add_options_of_kafka(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--config",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker option by Kafka's name",
    )
    add(
        "--config-file",
        type=_settings,
        default={},
        metavar="FILE",
        help="such options, one NAME=VALUE a line; for passwords, which others can read on a command line",
    )
    add(
        "--security-protocol",
        choices=PROTOCOLS,
        default=PROTOCOLS[0],
        metavar="P",
        help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL (default: %(default)s)",
    )
    add(
        "--users-file",
        type=_users,
        default={},
        metavar="FILE",
        help="users for PLAIN and SCRAM, one NAME:PASSWORD a line",
    )
    add(
        "--unsecured-tokens",
        action="store_true",
        help="for tests: OAUTHBEARER, if sasl.enabled.mechanisms names it, accepts tokens that nobody has signed, so"
        " that anyone can log in as anyone",
    )
    add(
        "--sasl-oauth-allow-http",
        action="store_true",
        help="load the keys of sasl.oauthbearer.jwks.endpoint.url by http from another machine: who can change them on"
        " the way logs in as anyone",
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        # Leave the text out of the error: it may be a secret.
        raise argparse.ArgumentTypeError("expected NAME=VALUE")
    return name, value


def _without_repeats(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = dict(settings)
    if len(found) < len(settings):
        names = [name for name, _ in settings]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(f"--config {twice} is given twice")
    return found


def _settings(path: str) -> dict[str, str]:
    return pairs(path, "=", "NAME=VALUE")


def _users(path: str) -> dict[str, str]:
    return pairs(path, ":", "NAME:PASSWORD")


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    try:
        return name, int(partitions or 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME:PARTITIONS") from None


async def _serve(cluster: Cluster, topics: Sequence[tuple[str, int]], until_stdin_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # asyncio doesn't support signal handlers on Windows. Ctrl-C raises KeyboardInterrupt there.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, end.set)
    if until_stdin_closes:
        await loop.connect_read_pipe(lambda: _Parent(end), sys.stdin)
    async with cluster:
        existing = await cluster.topics()
        for name, partitions in topics:
            if name not in existing:
                await cluster.create_topic(name, partitions)
        sys.stdout.write(f"{cluster.bootstrap_servers}\n")
        sys.stdout.flush()
        # Exclude everything imported so far from garbage collections, which would otherwise stop the broker for 40 ms.
        gc.collect()
        gc.freeze()
        await end.wait()


class _Parent(asyncio.Protocol):
    """Sets an event when the parent process closes the other end of the pipe."""

    def __init__(self, end: asyncio.Event) -> None:
        self._end = end

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.set()
