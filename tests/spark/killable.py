"""Runs a module in a process group of its own, which may kill itself, with the JVM and workers that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

from tests.timeouts import LONG_TIMEOUT
from tools.setup.project import ROOT


def run_killable(module: str, argument: str) -> int:
    """Run a module with an argument and a folder for Spark's warehouse, and return its exit status, or minus the
    signal.

    No process of the group is left, even if it takes too long.
    """
    with tempfile.TemporaryDirectory() as warehouse:
        process = subprocess.Popen(
            [sys.executable, "-m", module, argument, warehouse],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=10 * LONG_TIMEOUT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert process.returncode in (0, -signal.SIGKILL), output[-3000:]
        return process.returncode
