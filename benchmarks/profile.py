"""``python -m benchmarks.profile produce|consume``: where the client's CPU time goes, sampled by py-spy.

The broker is another process and is not in it. Time in C (sockets, compression, the accelerator) counts for the Python
function that called it. Stacks in which something is being imported are left out.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import pages
from benchmarks.__main__ import broker_at
from benchmarks.clients import CLIENTS, Launch
from benchmarks.runner import Bench, Cell, CellError
from benchmarks.tables import Table, console, show
from benchmarks.topics import TopicError
from benchmarks.work import Data, Settings
from tests.kafka.cluster import KafkaError

WAYS = {"produce": "post(), later awaited", "consume": "async for"}
OURS = ("aiokproto", "aiokproto-pure")
SAMPLES_PER_SECOND = 500
ROWS = 10
# As py-spy writes a frame: `function (path:line)`, without the line where it does not know it.
FRAME = re.compile(r"^(?P<function>.+) \((?P<path>.+?)(:\d+)?\)$")
PACKAGES = re.compile(r".*(?:/src|/site-packages|/lib/python[\d.]+)/")


class Frame(NamedTuple):
    """A function on the stack; ``module`` is its file, as an import would find it."""

    function: str
    module: str


IMPORTING = "<frozen importlib"
WAITING = Frame("_worker", "concurrent/futures/thread.py")
"""A thread of a pool that waits for work, which py-spy takes for one that works."""


def frames(stack: str) -> list[Frame]:
    """The functions of a stack, outermost first."""
    found = (FRAME.match(text) for text in stack.split(";"))
    return [Frame(match["function"], PACKAGES.sub("", match["path"])) for match in found if match is not None]


def read(lines: Iterable[str]) -> Counter[tuple[Frame, ...]]:
    """Samples by stack, of py-spy's raw format: frames and a count in each line."""
    counted: Counter[tuple[Frame, ...]] = Counter()
    for line in lines:
        text, _, count = line.rpartition(" ")
        stack = tuple(frames(text))
        if stack and stack[-1] != WAITING and not any(frame.module.startswith(IMPORTING) for frame in stack):
            counted[stack] += int(count)
    return counted


def tables(samples: Counter[tuple[Frame, ...]], title: str) -> list[Table]:
    """The files and the functions that take most."""
    modules: Counter[str] = Counter()
    own: Counter[Frame] = Counter()
    within: Counter[Frame] = Counter()
    for stack, count in samples.items():
        modules[stack[-1].module] += count
        own[stack[-1]] += count
        within.update(dict.fromkeys(stack, count))
    total = max(1, sum(own.values()))
    by_module = [(module, _share(count, total)) for module, count in modules.most_common(ROWS)]
    by_function = [
        (frame.function, frame.module, _share(count, total), _share(within[frame], total))
        for frame, count in own.most_common(ROWS)
    ]
    figures = ("itself", "with what it calls")
    return [
        Table(f"{title}, by file", ("file", "share"), by_module, ("share",)),
        Table(f"{title}, by function", ("function", "file", *figures), by_function, figures),
    ]


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %"


def profile(cell: Cell, bootstrap: str | None) -> list[Table]:
    """Run the cell under py-spy."""
    with tempfile.TemporaryDirectory() as folder, broker_at(bootstrap) as (address, _, _):
        output = Path(folder, "stacks")
        bench = Bench(address, Settings(), Path(folder))
        try:
            bench.warm_up()
            bench.run(cell, _sampled(CLIENTS[cell.client](), output))
        finally:
            bench.close()
        return tables(read(output.read_text().splitlines()), f"{cell.client} {cell.way}, {cell.data}")


def _sampled(launch: Launch, output: Path) -> Launch:
    own = Path(sysconfig.get_path("scripts"), "py-spy")
    program = str(own) if own.exists() else shutil.which("py-spy")
    if program is None:
        raise CellError("py-spy is not installed: the bench extra has it")
    options = ("--format", "raw", "--rate", str(SAMPLES_PER_SECOND), "--output", str(output))
    return Launch([program, "record", *options, "--", *launch.command], launch.environment)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    add = parser.add_argument
    add("kind", choices=WAYS)
    add("--way", help="another call, named as in the tables")
    add("--clients", nargs="+", choices=OURS, default=OURS[:1], help="(default aiokproto)")
    add("--messages", type=int, default=2_000_000, metavar="N", help="(default %(default)s)")
    add("--size", type=int, default=100, help="of values (default %(default)s)")
    add("--compression", default="none", help="(default %(default)s)")
    add("--bootstrap", metavar="HOST:PORT", help="use this cluster instead of starting real Kafka")
    add("--page", action="store_true", help="put the tables into docs/performance.md instead of printing them")
    return parser.parse_args(arguments)


def main() -> int:
    given = parse()
    way = given.way or WAYS[given.kind]
    data = Data(given.size, given.compression)
    cells = [Cell(client, given.kind, way, data, given.messages) for client in given.clients]
    try:
        made = [table for cell in cells for table in profile(cell, given.bootstrap)]
        if given.page:
            text = f"\n{pages.markdown(made)}\n\n"
            pages.PAGE.write_text(pages.put(pages.PAGE.read_text(), f"profile-{given.kind}", text))
            return 0
    except (KafkaError, TopicError, CellError, pages.PageError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for table in made:
        show(console(), table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
