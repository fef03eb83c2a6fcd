"""Rules of style that no linter knows. Each is a test of all the files that it concerns."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"

FILE_LINES = 1200
FUNCTION_LINES = 70

# These are imported on first use: a program that never uses zstd needn't load it, nor wait for Spark.
HEAVY = {"cramjam", "crc32c", "lz4", "numpy", "pyarrow", "pyspark", "snappy", "zstandard"}

# The words are spelled so that this file doesn't break its own rule.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
DEVELOPERS_MACHINE = re.compile(r"(?<![\w.])/(home|Users|root|work)/\w")


# Words of a private dialect that the code base once had, and their replacements.
REPLACED = {
    "asked for": "requested",
    "census": "count",
    "hurry": "end_linger",
    "in vain": "without records, without success",
    "somebody": "another client, a caller",
    "the face of": "the API of",
    "told": "given, reported, expected",
    "unless told otherwise": "by default",
}
OLD_WORDS = re.compile(rf"\b({'|'.join(REPLACED)})\b", re.IGNORECASE)


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


EVERYWHERE = python_files("src", "tests", "tools", "examples", "benchmarks")
TEXTS = [*EVERYWHERE, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]


def offenders(paths: Iterable[Path], faults: Callable[[Path], object]) -> str:
    """Return the files with faults, one per line with their faults; empty if there are none."""
    found = ((path.relative_to(ROOT), faults(path)) for path in paths)
    return "\n".join(f"{path}: {fault}" for path, fault in found if fault)


@dataclass(frozen=True)
class Facts:
    """The facts about a file that the rules need. The file is parsed once for all of them, and the large tree isn't
    kept."""

    has_docstring: bool
    long_functions: dict[str, int]
    bare_excepts: list[int]
    sleeps: list[int]
    prints: list[int]
    wait_for: list[int]
    imported: set[str]
    """The packages that import statements name, anywhere in the file."""
    imported_first: set[str]
    """The packages that are imported with the module."""


@cache
def facts(path: Path) -> Facts:
    text = path.read_text()
    tree = ast.parse(text, filename=str(path))
    nodes, first = list(ast.walk(tree)), list(module_level(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return Facts(
        has_docstring=ast.get_docstring(tree) is not None,
        long_functions=too_long(text, nodes),
        bare_excepts=[node.lineno for node in nodes if isinstance(node, ast.ExceptHandler) and node.type is None],
        sleeps=[call.lineno for call in calls if last_name(call.func).endswith("sleep") and waits(call)],
        prints=[call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"],
        wait_for=[
            node.lineno
            for node in nodes
            if isinstance(node, ast.Attribute) and node.attr == "wait_for" and ast.unparse(node) == "asyncio.wait_for"
        ],
        imported=imported(nodes),
        imported_first=imported(first),
    )


def lines_of_code(source: str) -> set[int]:
    """Return the numbers of the lines that hold more than a comment."""
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {line for token in tokens if token.type not in nothing for line in range(token.start[0], token.end[0] + 1)}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    documented = ast.get_docstring(function) is not None
    start = function.body[0].end_lineno if documented else function.lineno - 1
    assert start is not None
    assert function.end_lineno is not None
    return range(start + 1, function.end_lineno + 1)


def last_name(function: ast.expr) -> str:
    """Return the last part of the name that is called: `sleep` of `asyncio.sleep`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def waits(call: ast.Call) -> bool:
    """Return whether a sleep takes time, or may because its argument isn't a constant. `asyncio.sleep(0)` doesn't."""
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the top-level packages that import statements among the nodes name."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def module_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when the module is imported: everything except the bodies of functions and `if TYPE_CHECKING`
    blocks."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and last_name(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from module_level(child)


def too_long(text: str, nodes: Iterable[ast.AST]) -> dict[str, int]:
    """Return the functions over the limit. Comments, blank lines and the docstring explain, and may take the room they
    need."""
    bodies = {node.name: body_lines(node) for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    long = {name: lines for name, lines in bodies.items() if len(lines) > FUNCTION_LINES}
    code = lines_of_code(text) if long else set[int]()
    lengths = {name: len(code.intersection(lines)) for name, lines in long.items()}
    return {name: length for name, length in lengths.items() if length > FUNCTION_LINES}


def allowed_for(path: Path) -> set[str]:
    return {"pyspark"} if path.is_relative_to(SRC / "aiokproto" / "spark") else set()


def test_files_are_short() -> None:
    assert not offenders(EVERYWHERE, lambda path: path.read_text().count("\n") > FILE_LINES)


def test_functions_are_short() -> None:
    assert not offenders(EVERYWHERE, lambda path: facts(path).long_functions)


def test_nothing_is_left_unfinished() -> None:
    assert not offenders(EVERYWHERE, lambda path: UNFINISHED.findall(path.read_text()))


def test_no_bare_except() -> None:
    """A bare except swallows cancellation too."""
    assert not offenders(EVERYWHERE, lambda path: facts(path).bare_excepts)


def test_no_path_of_a_developers_machine() -> None:
    assert not offenders(TEXTS, lambda path: [match[0] for match in DEVELOPERS_MACHINE.finditer(path.read_text())])


def test_replaced_words_stay_replaced() -> None:
    """CONTRIBUTING.md has the style, and needs its bad examples."""
    texts = [path for path in TEXTS if path.name not in (Path(__file__).name, "CONTRIBUTING.md")]
    assert not offenders(texts, lambda path: [match[0] for match in OLD_WORDS.finditer(path.read_text())])


def test_clocks_and_chance_come_from_the_runtime() -> None:
    """The seed must decide everything that runs in a simulation, compiled or not."""
    sources = ("random", "secrets", "time", "uuid", "datetime", "threading")
    package = ROOT / "src" / "aiokproto"
    allowed = {
        "runtime/runtime.py",
        "broker/control/random_faults.py",  # seeded by the test that uses it
        "broker/threaded.py",  # another thread is what it is for
        "security/gssapi.py",  # this too
        "records/crc.py",  # a lock for its first use: nothing is decided by it
        "consumer/delivery.py",  # the id of the thread, which the pure module has from its source
    }
    modules = (
        path
        for path in python_files("src/aiokproto")
        if path.relative_to(package).as_posix() not in allowed
        and not {"cli", "spark", "simulation"} & set(path.relative_to(package).parts)
    )
    assert not offenders(modules, lambda path: set(sources) & facts(path).imported)
    compiled = {path.name for path in package.rglob("*.pyx") if re.search(r"time\.h|\brand|clock", path.read_text())}
    assert compiled == {"_appender.pyx"}, "it reads the system clock only where the runtime does"


def test_no_wait_swallows_a_cancellation() -> None:
    """``asyncio.wait_for`` does that before Python 3.12 if the result comes at the same time, but `runtime.timeouts`
    doesn't."""
    assert not offenders(python_files("src"), lambda path: facts(path).wait_for)


def test_modules_say_what_they_are_for() -> None:
    assert not offenders(python_files("src"), lambda path: not facts(path).has_docstring)


def test_the_library_does_not_print() -> None:
    assert not offenders(
        (path for path in python_files("src") if "cli" not in path.parts), lambda path: facts(path).prints
    )


def test_heavy_libraries_are_imported_on_first_use() -> None:
    """Only `spark` may import PySpark as a module: its classes are PySpark's own, and a program that imports it uses
    Spark."""
    assert not offenders(python_files("src"), lambda path: HEAVY & facts(path).imported_first - allowed_for(path))


def test_tests_do_not_sleep() -> None:
    """A test that waits for time to pass is slow when it passes and random when it fails. It must wait for the
    condition.

    The harness of real Kafka may poll, because a Java process has no event to wait on. Sleeping takes no time in a
    simulation.
    """
    harness = ROOT / "tests" / "kafka"
    virtual = [ROOT / "tests" / area for area in ("simulation", "group", "callbacks")]
    tests = (path for path in python_files("tests") if path.parent != harness or path.name.startswith("test_"))
    assert not offenders((path for path in tests if path.parent not in virtual), lambda path: facts(path).sleeps)


def test_examples_are_run_by_a_test() -> None:
    tests = [path.read_text() for path in python_files("tests")]
    for example in python_files("examples"):
        if "__main__" in example.read_text():
            name = example.relative_to(ROOT / "examples").as_posix()
            assert any(name in test for test in tests), f"no test names {name}"


def test_tasks_start_as_the_runtime_says() -> None:
    """A loop's own task factory may start a task before its creator is done (see `aiokproto.runtime.create_task`)."""
    package = ROOT / "src" / "aiokproto"
    modules = (
        path
        for path in python_files("src/aiokproto")
        if path != package / "runtime/runtime.py"
        and not {"cli", "spark", "simulation"} & set(path.relative_to(package).parts)
    )
    assert not offenders(modules, lambda path: re.findall(r"\.create_task\(|\.TaskGroup\(", path.read_text()))


def test_counts_have_the_number_of_their_noun() -> None:
    """Log lines write counts with `aiokproto.texts.counted`, so that there is no "1 attempts"."""
    plural = re.compile(r"%d (?:more )?(?!as\b|bytes\b|closes\b)[a-z]+s\b")
    assert not offenders(python_files("src"), lambda path: plural.findall(path.read_text()))
