"""Outlives the process that runs a cluster, and cleans up after it however it died.

It is run with the cluster's folder as argument. Its standard input is a pipe, and only the owner holds the other end.
Each line is ``+pid`` (a broker was started) or ``-pid`` (it ended). The end of the input means that the owner has
ended, even if it was killed. The remaining brokers are then killed, and the folder is removed.

The kernel's own "signal me when my parent dies" isn't enough: it means the parent *thread*, and tests restart brokers
from worker threads that come and go.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time


def main() -> None:
    # Ctrl-C and a closed terminal reach the whole process group, and the owner must have its chance to stop cleanly.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    alive: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line[0] == "+":
            alive.add(pid)
        else:
            alive.discard(pid)
    for pid in alive:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    _remove(sys.argv[1])


def _remove(folder: str) -> None:
    # A killed broker may still be creating a file while the tree is removed.
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):  # noqa: PTH110 - as little as possible is imported here
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main()
