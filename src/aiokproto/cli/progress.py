"""A progress bar for Spark jobs, based on the tasks of their stages."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL = 0.2
"""How often Spark's tasks are checked (s)."""


class Tasks(NamedTuple):
    """The tasks of the running stages.

    Attributes:
        done: The number of completed tasks.
        total: The number of tasks.
    """

    done: int
    total: int


def active_tasks(spark: SparkSession) -> Tasks:
    """Return the tasks of the stages that are currently running."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    found = [stage for stage in stages if stage is not None]
    return Tasks(sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found))


@contextmanager
def progress(spark: SparkSession, what: str, *, shown: bool) -> Iterator[None]:
    """Show the tasks of Spark's stages on standard error while the body is running. Does nothing if rich isn't
    installed."""
    if not shown or importlib.util.find_spec("rich") is None:
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        number = bar.add_task(what, total=None)

        def update(tasks: Tasks) -> None:
            # There is nothing to show between two stages.
            if tasks.total:
                bar.update(number, completed=tasks.done, total=tasks.total)

        with _polling(lambda: update(active_tasks(spark))):
            yield


@contextmanager
def _polling(look: Callable[[], None]) -> Iterator[None]:
    end = threading.Event()

    def poll() -> None:
        # This fails once the session is stopped, for example by Ctrl-C. From then on, there's nothing to show.
        with contextlib.suppress(Exception):
            while not end.wait(INTERVAL):
                look()

    thread = threading.Thread(target=poll, name="aiokproto-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
