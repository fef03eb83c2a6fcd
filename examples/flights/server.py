"""The embedded broker as a process of its own, so that it and the clients each have a core."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def embedded_broker() -> Iterator[str]:
    """A broker for as long as the block lasts; gives its address."""
    command = [sys.executable, "-m", "aiokproto.broker", "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError(f"the embedded broker ended with {process.wait()} before it was ready")
            yield address
        finally:
            # It ends then, and is waited for.
            process.stdin.close()
