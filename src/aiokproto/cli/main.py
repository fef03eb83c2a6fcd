"""``aiokproto``: one command for the tools of this package."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module

from aiokproto._version import __version__

INTERRUPTED = 130
"""The exit code of a command ended by SIGINT, as shells report it: 128 plus the signal number."""


def interruptible(main: Callable[..., int]) -> Callable[..., int]:
    """Make a command exit with :data:`INTERRUPTED` and without a traceback if Ctrl-C interrupts it."""

    @wraps(main)
    def run(argv: Sequence[str] | None = None) -> int:
        try:
            return main(argv)
        except KeyboardInterrupt:
            return INTERRUPTED

    return run


_TOOLS = {
    "broker": ("aiokproto.cli.broker", "run the embedded broker"),
    "load": ("aiokproto.cli.load", "append topics to Parquet files with Spark"),
    "codec": ("aiokproto.cli.codec.main", "decode, encode and look up messages of the protocol"),
}


@interruptible
def main(argv: Sequence[str] | None = None) -> int:
    """Run a tool, and return its exit code, or 2 if there is no such tool."""
    # JSON is UTF-8, whatever the locale.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    options = _parser().parse_args(argv)
    # Import the tool only when it's used, so starting the codec doesn't have to wait for the broker's imports.
    tool = import_module(_TOOLS[options.tool][0])
    code: int = tool.main(options.arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    tools = "\n".join(f"  {name:<8} {text}" for name, (_, text) in _TOOLS.items())
    parser = argparse.ArgumentParser(
        prog="aiokproto",
        description="Tools of the Kafka protocol.",
        epilog=f"tools:\n{tools}\n\n`aiokproto TOOL --help` lists the options of a tool.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"aiokproto {__version__}")
    parser.add_argument("tool", choices=_TOOLS, metavar="TOOL", help=", ".join(_TOOLS))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the tool")
    return parser
