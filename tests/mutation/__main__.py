"""Measure what the suite catches, by mutants drawn at random::

    python -m tests.mutation map    # which tests run which lines: runs the suite once
    python -m tests.mutation draw   # draws mutants
    python -m tests.mutation run    # tries each with the tests that run its lines
    python -m tests.mutation run --without FILE    # compares a smaller suite with that

A run goes on where it was interrupted. All is kept in .cache/mutation. The tests run in pure Python: that is what the
mutants are of.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from tests.mutation import results
from tests.mutation.coverage_map import CoverageMap, record
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.results import Result
from tests.mutation.runner import Runner
from tests.mutation.sample import draw
from tests.mutation.selection import Selection
from tests.mutation.trial import run_all
from tools.setup.project import CACHE, PACKAGE

FOLDER = CACHE / "mutation"
MAP = FOLDER / "map"
DRAWN = FOLDER / "drawn.jsonl"
MARKS = "not kafka and not java and not spark and not kerberos and not thorough"
# The console is wide enough for the table and wraps no line, so that places can be copied.
CONSOLE = Console(width=120, soft_wrap=True, markup=False, highlight=False)


def record_map(tests: Sequence[str], marks: str, workers: int) -> None:
    shutil.rmtree(MAP, ignore_errors=True)
    MAP.mkdir(parents=True)
    record(MAP, tests, marks, workers)
    coverage_map = CoverageMap(MAP)
    for test in coverage_map.failed:
        CONSOLE.print(f"left out, since it fails without a mutant: {test}")
    CONSOLE.print(f"{len(coverage_map.seconds)} tests are in the map")
    coverage_map.close()


def draw_mutants(count: int, seed: int) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    mutants = draw(PACKAGE, count, seed)
    DRAWN.write_text("".join(f"{json.dumps(mutant._asdict())}\n" for mutant in mutants))
    CONSOLE.print(f"{len(mutants)} mutants are in {DRAWN}")


def drawn() -> list[Mutant]:
    """Return the drawn mutants. Their modules must not have changed since."""
    mutants = [Mutant(**json.loads(line)) for line in DRAWN.read_text().splitlines()]
    now = {
        mutant for file in {each.file for each in mutants} for mutant in mutants_of(file, (PACKAGE / file).read_text())
    }
    if not now.issuperset(mutants):
        raise SystemExit("modules have changed since the mutants were drawn: draw again")
    return mutants


def run(selection: Selection, limit: float, jobs: int, most: int | None) -> None:
    """Try the drawn mutants whose result isn't known yet."""
    coverage_map = CoverageMap(MAP)
    if coverage_map.is_outdated():
        raise SystemExit("modules have changed since the map was made: make it again")
    path, everything = results_of(selection.name), results_of("all")
    this_run = (coverage_map.name, limit)
    known, of_all = results.read(path, this_run), results.read(everything, this_run)
    left = list[Mutant]()
    for mutant in drawn()[:most]:
        before = of_all.get(mutant.name)
        if mutant.name not in known and before is not None and results.holds_for(before, selection):
            results.append(path, before)
        elif mutant.name not in known:
            left.append(mutant)

    def ended(result: Result) -> None:
        results.append(path, result)
        test = f" by {result.test}" if result.test else ""
        CONSOLE.print(f"{result.place}: {result.change}: {result.outcome}{test}, {result.seconds:.0f} s")

    if left:
        run_all(Runner(coverage_map, selection, limit).run(left, jobs, ended))
    coverage_map.close()
    show(results.read(path, this_run), None if path == everything else of_all)


def results_of(selection: str) -> Path:
    return FOLDER / f"results-{selection}.jsonl"


def show(found: Mapping[str, Result], before: Mapping[str, Result] | None) -> None:
    """Print the results of the drawn mutants, and what was caught in the run before."""
    names = {mutant.name for mutant in drawn()}
    shown = {name: result for name, result in found.items() if name in names}
    for line in results.not_caught(shown.values()):
        CONSOLE.print(line)
    CONSOLE.print(results.by_package(shown.values()))
    if before is not None:
        lost = results.lost(before, shown)
        CONSOLE.print(f"caught before, and not now: {len(lost)}")
        for line in lost:
            CONSOLE.print(line)


def table(files: Sequence[Path]) -> None:
    first, *second = map(results.read, files)
    show(second[0] if second else first, first if second else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("map", help="record which tests run which lines")
    command.add_argument("--tests", nargs="*", default=[], help="files or folders (default: all)")
    command.add_argument("-m", dest="marks", default=MARKS, help="expression of marks (default: %(default)s)")
    # More processes than cores would make each test slower than in a trial.
    cores = os.cpu_count() or 1
    command.add_argument("--workers", type=int, default=cores, help="processes (default: %(default)s)")
    command = commands.add_parser("draw", help="draw mutants at random")
    command.add_argument("--count", type=int, default=200, help="of all packages (default: %(default)s)")
    command.add_argument("--seed", type=int, default=1, help="the same draws the same (default: %(default)s)")
    command = commands.add_parser("run", help="try the drawn mutants")
    command.add_argument("--only", type=Path, help="file with the node ids that are taken, or their beginnings")
    command.add_argument("--without", type=Path, help="file with the node ids that are left out, or their beginnings")
    command.add_argument("--limit", type=float, default=60, help="seconds of tests for each (default: %(default)s)")
    command.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: %(default)s)")
    command.add_argument("--first", type=int, help="only so many of the drawn mutants (default: all)")
    command = commands.add_parser("table", help="print a run, or two and what the second does not catch any more")
    command.add_argument("files", nargs="+", type=Path, help="one or two files of results")
    given = parser.parse_args()
    if given.command == "map":
        record_map(given.tests, given.marks, given.workers)
    elif given.command == "draw":
        draw_mutants(given.count, given.seed)
    elif given.command == "run":
        run(Selection.of_files(given.only, given.without), given.limit, given.jobs, given.first)
    else:
        table(given.files)


if __name__ == "__main__":
    main()
