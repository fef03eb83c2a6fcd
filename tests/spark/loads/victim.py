"""A load in a process of its own, which is killed (-9) where a test says: nothing in it runs after that."""

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
from tests.patience import PATIENCE
from tests.spark.loads.scene import Log, load, rerun

LOOKS_AT_FILES = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "os.listdir")
"""Audit events: Python raises one before each call of the operating system that looks at files, or changes them."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["s3fs", "tests.spark.loads.victim"])


@dataclass(frozen=True)
class Victim:
    """What the process does, and where it is killed.

    Attributes:
        uri: The output.
        log: What there is to load.
        run_id: What is to be run again; None for a load.
        at: The call before which it is killed: of the file system, or a request to the object store. None: it is not.
        after: Killed after the call took effect, before its answer is there; for an object store only.
        environment: How the object store is found.
    """

    uri: str
    log: Log
    run_id: str | None
    at: int | None
    after: bool = False
    environment: Mapping[str, str] | None = None

    def run(self) -> int | None:
        """Run it to its end; the number of calls it made, or None if it was killed."""
        here, there = _context.Pipe(duplex=False)
        process = _context.Process(target=_main, args=(self, there))
        process.start()
        there.close()
        try:
            process.join(PATIENCE)
            assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
            return int(here.recv()) if process.exitcode == 0 else None
        finally:
            process.kill()
            process.join()
            here.close()


def _main(victim: Victim, calls: Connection) -> None:
    count = _count_files(victim) if victim.environment is None else _count_requests(victim, victim.environment)
    storage = open_storage(victim.uri)
    if victim.run_id is None:
        load(storage, victim.log)
    else:
        rerun(storage, victim.run_id)
    calls.send(count())


def _count_files(victim: Victim) -> Callable[[], int]:
    root, seen = victim.uri.removeprefix("file://"), 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in LOOKS_AT_FILES or not str(arguments[0]).startswith(root):
            return
        if seen == victim.at:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1

    sys.addaudithook(hook)
    return lambda: seen


def _count_requests(victim: Victim, environment: Mapping[str, str]) -> Callable[[], int]:
    os.environ.update(environment)
    url = environment["AWS_ENDPOINT_URL"]

    def order(orders: Mapping[str, object]) -> None:
        with urlopen(f"{url}/-/orders", json.dumps(orders).encode(), timeout=PATIENCE) as response:
            response.read()

    def asked() -> int:
        with urlopen(f"{url}/-/requests", timeout=PATIENCE) as response:
            found = len(json.load(response))
        # It has outlived the order, which no other process is to obey.
        order({})
        return found

    order({} if victim.at is None else {"kill": {"pid": os.getpid(), "at": victim.at, "after": victim.after}})
    return asked
