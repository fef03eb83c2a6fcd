"""A load in its own process, killed (-9) at a chosen call."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from urllib.request import urlopen

from aiokproto.spark.loads.opening import open_storage
from tests.spark.loads.harness import Log, load, rerun
from tests.timeouts import LONG_TIMEOUT

FILE_EVENTS = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "os.listdir")
"""Audit events: Python raises one before each call of the operating system that looks at files, or changes them."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["s3fs", "tests.spark.loads.load_process"])


@dataclass(frozen=True)
class LoadProcess:
    """The work of the process, and the call at which it is killed.

    Attributes:
        uri: The output.
        log: The log to load from.
        run_id: The run to repeat; None for a load.
        kill_at: The call before which it's killed: of the file system, or a request to the object store. None if it
            isn't.
        kill_after: Killed after the call took effect, before its response arrives; for an object store only.
        environment: Environment variables with the address of the object store.
    """

    uri: str
    log: Log
    run_id: str | None
    kill_at: int | None
    kill_after: bool = False
    environment: Mapping[str, str] | None = None

    def run(self) -> int | None:
        """Run it to its end; the number of calls it made, or None if it was killed."""
        here, there = _context.Pipe(duplex=False)
        process = _context.Process(target=_main, args=(self, there))
        process.start()
        there.close()
        try:
            process.join(LONG_TIMEOUT)
            assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
            return int(here.recv()) if process.exitcode == 0 else None
        finally:
            process.kill()
            process.join()
            here.close()


def _main(process: LoadProcess, calls: Connection) -> None:
    count = _count_files(process) if process.environment is None else _count_requests(process, process.environment)
    storage = open_storage(process.uri)
    if process.run_id is None:
        load(storage, process.log)
    else:
        rerun(storage, process.run_id)
    calls.send(count())


def _count_files(process: LoadProcess) -> Callable[[], int]:
    root, seen = process.uri.removeprefix("file://"), 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in FILE_EVENTS or not str(arguments[0]).startswith(root):
            return
        if seen == process.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1

    sys.addaudithook(hook)
    return lambda: seen


def _count_requests(process: LoadProcess, environment: Mapping[str, str]) -> Callable[[], int]:
    os.environ.update(environment)
    url = environment["AWS_ENDPOINT_URL"]

    def inject(faults: Mapping[str, object]) -> None:
        with urlopen(f"{url}/-/faults", json.dumps(faults).encode(), timeout=LONG_TIMEOUT) as response:
            response.read()

    def received() -> int:
        with urlopen(f"{url}/-/requests", timeout=LONG_TIMEOUT) as response:
            found = len(json.load(response))
        # The process has survived. A later request of another process must not kill its id.
        inject({})
        return found

    kill = {"pid": os.getpid(), "at": process.kill_at, "after": process.kill_after}
    inject({} if process.kill_at is None else {"kill": kill})
    return received
