"""The command line for loads: ``aiokproto load append``, ``rerun``, ``runs`` and ``vacuum``.

Starts its own Spark, by default on all cores of this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokproto.cli.progress import progress
from aiokproto.cli.secret_files import existing, pairs
from aiokproto.errors import ConfigurationError, KafkaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aiokproto.spark import LoadResult, Manifest

_EPILOG = """\
exit codes: 0 done, 1 it failed, 2 the command line or an option is wrong, 130 interrupted (Ctrl-C)

example: aiokproto load append flights /data/flights --bootstrap-servers localhost:9092 \\
             --option value.format=json --option 'value.schema=carrier STRING' --partition-by 'day=to_date(timestamp)'
"""

_LOG_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run a command. Return the exit code."""
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if rest:
        parser.error(_unrecognized(rest))
    command: Callable[[argparse.Namespace], Iterable[str]] = options.command
    options.session = _Session(options)
    try:
        lines = _in_thread(lambda: list(command(options)))
    except KeyboardInterrupt:
        options.session.abandon()
        return _failed("interrupted: `aiokproto load runs` lists the loads that were committed", 130)
    except ConfigurationError as error:
        return _failed(error, 2)
    except (KafkaError, ImportError, OSError) as error:
        return _failed(error, 1)
    except Exception as error:
        # Errors from Spark or a storage library are for the user, but their messages contain a whole stack trace. Other
        # errors are bugs.
        if type(error).__module__.partition(".")[0] in ("aiokproto", *sys.stdlib_module_names):
            raise
        reason = _reason(str(error)) or type(error).__name__
        # Errors from Spark's Python processes arrive as text.
        wrong = reason.removeprefix(f"{ConfigurationError.__module__}.{ConfigurationError.__name__}: ")
        return _failed(wrong, 1 if wrong == reason else 2)
    return _written(lines)


def _in_thread(call: Callable[[], list[str]]) -> list[str]:
    """Call a function in another thread, so Ctrl-C interrupts the current one.

    In the middle of a call to Java, Ctrl-C would break the connection to Java, and py4j would log a stack trace.
    """
    done: Future[list[str]] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        # The exception is raised again in the main thread.
        except BaseException as error:  # noqa: BLE001
            done.set_exception(error)

    # A daemon thread, so the process can exit whatever the thread is waiting for.
    thread = threading.Thread(target=run, name="aiokproto-load", daemon=True)
    thread.start()
    while thread.is_alive():
        # A wait without a timeout can't be interrupted on Windows.
        thread.join(0.2)
    return done.result()


def _unrecognized(rest: Sequence[str]) -> str:
    # Leave values out of the error. They may be secrets: the rest of an unquoted value with spaces ends up here.
    names = [argument.partition("=")[0] for argument in rest if argument.startswith("--")]
    if names:
        return f"unrecognized options: {', '.join(names)}"
    return f"{len(rest)} arguments too many: write values with spaces in quotes, and TOPICs and OUT side by side"


def _written(lines: Iterable[str]) -> int:
    # sys.stdout is None if the caller closed it. The command has succeeded, even if nobody reads its output.
    if sys.stdout is None:
        return 0
    try:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except OSError as error:
        # Python would otherwise flush again at exit, and print a traceback.
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        # A broken pipe isn't an error: the reader may have seen enough.
        return 0 if isinstance(error, BrokenPipeError) else _failed(f"standard output: {error}", 1)
    return 0


def _failed(error: object, code: int) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"error: {error}\n")
    return code


def _reason(text: str) -> str:
    """Return the line of a Spark error that contains an error from this package or Java, or else the first line."""
    lines = text.strip().splitlines()
    ours = [line for line in lines if re.match(r"\s*aiokproto\.[\w.]+(Error|Exception): ", line)]
    javas = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return [*ours, *javas, *lines, ""][0].strip()


def _append(options: argparse.Namespace) -> Iterator[str]:
    from aiokproto.spark import load

    partition_by = _checked(options, options.topics, options.from_timestamp)
    with options.session as spark, progress(spark, "loading", shown=options.progress):
        result = load(
            spark,
            options.topics,
            options.out,
            bootstrap_servers=options.bootstrap_servers,
            from_timestamp=options.from_timestamp,
            on_truncation="continue" if options.continue_after_truncation else "fail",
            options=_options(options),
            partition_by=partition_by,
        )
    yield _report(options, result)


def _rerun(options: argparse.Namespace) -> Iterator[str]:
    from aiokproto.spark import rerun
    from aiokproto.spark.loads.load import check_run

    # A rerun reads the same offsets as the earlier load, so the topics don't matter.
    partition_by = _checked(options, ["any"])
    if not _on_hdfs(options.out):
        check_run(options.out, options.run_id)
    with options.session as spark, progress(spark, f"rerunning {options.run_id}", shown=options.progress):
        result = rerun(
            spark,
            options.out,
            options.run_id,
            bootstrap_servers=options.bootstrap_servers,
            allow_fewer_rows=options.allow_fewer_rows,
            options=_options(options),
            partition_by=partition_by,
        )
    yield _report(options, result)


def _runs(options: argparse.Namespace) -> Iterator[str]:
    # Import from the module itself: listing the loads doesn't need PySpark.
    from aiokproto.spark.loads.load import check_directory, runs

    check_directory(options.out)
    with _session_for(options) as spark:
        found = runs(options.out, spark)
    if options.json:
        yield json.dumps([_summary(manifest) for manifest in found], indent=1)
        return
    for manifest in found:
        ranges = " ".join(f"{read.topic_partition}:{read.start}-{read.end}" for read in manifest.partitions)
        rows = f"attempt {manifest.attempt}  {manifest.rows:,} rows"
        yield f"{manifest.run_id}  {manifest.created}  {rows}  {ranges}"


def _vacuum(options: argparse.Namespace) -> Iterator[str]:
    from aiokproto.spark import vacuum

    with _session_for(options) as spark:
        found = vacuum(options.out, older_than=options.older_than, dry_run=options.dry_run, spark=spark)
    for file in found:
        yield f"{'would remove' if options.dry_run else 'removed'} {file.name}  {file.size:,} bytes"


def _report(options: argparse.Namespace, result: LoadResult) -> str:
    if options.json:
        ranges = [
            {"topic": read.topic, "partition": read.partition, "start": read.start, "end": read.end, "rows": read.rows}
            for read in result.partitions
        ]
        return json.dumps({"run_id": result.run_id, "rows": result.rows, "partitions": ranges})
    if result.run_id is None:
        return "no new records"
    return f"{result.run_id}  {result.rows:,} rows of {len(result.partitions)} partitions"


def _summary(manifest: Manifest) -> Mapping[str, Any]:
    """Return the parts of a manifest that people are interested in, without file names and leader epochs."""
    found = manifest.as_json()
    kept = ("run_id", "number", "attempt", "created", "cluster_id", "data", "source_rows")
    names = ("topic", "partition", "start", "end", "rows")
    partitions = [{name: partition[name] for name in names} for partition in found["partitions"]]
    return {**{name: found[name] for name in kept}, "rows": manifest.rows, "partitions": partitions}


def _on_hdfs(out: str) -> bool:
    return out.lower().startswith(("hdfs:", "viewfs:"))


def _checked(
    options: argparse.Namespace, topics: Sequence[str], from_timestamp: int | datetime | None = None
) -> Mapping[str, str] | None:
    """Check the command line before starting Java, which takes seconds. Return the columns to partition files by."""
    from aiokproto.spark.loads.load import check_arguments

    partition_by = _partitions(options.partition_by)
    check_arguments(
        topics,
        bootstrap_servers=options.bootstrap_servers,
        options=_options(options),
        partition_by=partition_by,
        from_timestamp=from_timestamp,
    )
    return partition_by


def _partitions(given: Sequence[tuple[str, str]]) -> Mapping[str, str] | None:
    names = [name for name, _ in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(f"--partition-by {twice[0]} is given twice")
    return dict(given) or None


def _session_for(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Return the session that a command without jobs needs in order to access its output. For most kinds of output,
    it's None."""
    session: _Session = options.session
    return session if _on_hdfs(options.out) else contextlib.nullcontext()


class _Session:
    """A command's Spark session, which is stopped at the end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._spark: Any = None

    def __enter__(self) -> Any:
        self._spark = self._start()
        return self._spark

    def __exit__(self, *_: object) -> None:
        self.stop()

    def abandon(self) -> None:
        """Stop the session from another thread while a job is running. The job fails, without Java logging it."""
        if self._spark is not None:
            with contextlib.suppress(Exception):
                self._spark.sparkContext.setLogLevel("OFF")
            self.stop()

    def stop(self) -> None:
        """Stop the session if it was started. This can be called from any thread, and more than once."""
        if self._spark is not None:
            # Stopping fails if Java has already ended. The error would hide what the command did, or why it failed.
            with contextlib.suppress(Exception):
                self._spark.stop()

    def _start(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from aiokproto.spark.permissions import EVERYTHING

        # By default, Spark's workers use the `python3` in PATH, which may not have pyarrow.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # The user who runs the command may do anything: nobody else's SQL runs here. Variables that are already set are
        # kept.
        for name, value in EVERYTHING.items():
            os.environ.setdefault(name, value)
        settings = {
            **{f"spark.executorEnv.{name}": os.environ[name] for name in EVERYTHING},
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            **dict(self._options.conf),
        }
        if self._options.conf_file is not None:
            # Let Java read the file. As settings of the builder, its contents would become arguments of the Java
            # process.
            given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
            file = shlex.quote(str(self._options.conf_file))
            os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {file} --load-spark-defaults {given}"
        builder = SparkSession.builder.appName("aiokproto load").master(self._options.master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark: SparkSession = builder.getOrCreate()
        spark.sparkContext.setLogLevel(self._options.spark_log_level)
        return spark


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aiokproto load",
        description="Append topics to Parquet files, each record once, with Spark.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    append = commands.add_parser("append", help="append the new records of topics", allow_abbrev=False)
    append.add_argument("topics", nargs="+", metavar="TOPIC", help="topics to load")
    append.add_argument("out", metavar="OUT", help="a directory, as a path or URI (s3a://…, hdfs://…)")
    append.add_argument(
        "--from-timestamp",
        type=_time,
        metavar="TIME",
        help="where to start in partitions that no load has read: ISO 8601 with a time zone, or milliseconds",
    )
    append.add_argument(
        "--continue-after-truncation",
        action="store_true",
        help="if the log has lost loaded records, load those that replaced them, too",
    )
    append.set_defaults(command=_append)
    rerun = commands.add_parser(
        "rerun", help="read the offsets of an earlier load again, and replace its rows", allow_abbrev=False
    )
    rerun.add_argument("out", metavar="OUT")
    rerun.add_argument("run_id", metavar="RUN_ID", help="the load, as `runs` lists it")
    rerun.add_argument(
        "--allow-fewer-rows", action="store_true", help="also if the topics have lost records that the output has"
    )
    rerun.set_defaults(command=_rerun)
    for verb in (append, rerun):
        _add_load(verb)
    runs = commands.add_parser("runs", help="list the loads of an output", allow_abbrev=False)
    runs.add_argument("out", metavar="OUT")
    runs.set_defaults(command=_runs)
    vacuum = commands.add_parser(
        "vacuum", help="remove files of loads that failed or were replaced", allow_abbrev=False
    )
    vacuum.add_argument("out", metavar="OUT")
    vacuum.add_argument(
        "--older-than",
        type=_age,
        default=timedelta(days=7),
        metavar="AGE",
        help="time since the last write: 90m, 12h, 7d, 2w (default: 7d); longer than any load",
    )
    vacuum.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    vacuum.set_defaults(command=_vacuum)
    for verb in (append, rerun, runs):
        verb.add_argument("--json", action="store_true", help="print JSON")
    for verb in (append, rerun, runs, vacuum):
        _add_spark(verb)
    return parser


def _add_load(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--bootstrap-servers", required=True, metavar="HOST:PORT,…", help="brokers")
    add(
        "--option",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the data source, as kafka.security.protocol=SSL or minPartitions=8",
    )
    add(
        "--option-file",
        type=_settings,
        default={},
        metavar="FILE",
        help="such options, one NAME=VALUE a line; for passwords, which others can read on a command line",
    )
    add(
        "--partition-by",
        type=_partition,
        action="append",
        default=[],
        metavar="COLUMN[=SQL]",
        help="divide files by a column, or by a new one: 'day=to_date(timestamp)'",
    )
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=sys.stderr is not None and sys.stderr.isatty(),
        help="show a progress bar, which needs rich (default: on a terminal)",
    )


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default="local[*]", help="Spark's master (default: %(default)s)")
    parser.add_argument(
        "--conf", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )
    parser.add_argument(
        "--conf-file",
        type=existing,
        metavar="FILE",
        help="a file of such settings in Spark's form (spark-submit --properties-file); for keys of storages",
    )
    parser.add_argument(
        "--spark-log-level",
        type=str.upper,
        choices=_LOG_LEVELS,
        default="ERROR",
        metavar="LEVEL",
        help="level of Spark's log: %(choices)s (default: %(default)s)",
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        # Leave the text out of the error: it may be a secret.
        raise argparse.ArgumentTypeError("expected NAME=VALUE")
    return name, value


def _settings(path: str) -> dict[str, str]:
    return pairs(path, "=", "NAME=VALUE")


def _options(options: argparse.Namespace) -> dict[str, str]:
    """Return the options for the data source. Options on the command line override those in the file."""
    return {**options.option_file, **dict(options.option)}


def _partition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or bool(equals) != bool(value.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN or COLUMN=SQL")
    return name, value


def _time(text: str) -> int | datetime:
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither ISO 8601 nor milliseconds") from None
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: 2026-01-31T12:00:00Z")
    try:
        return found.astimezone(timezone.utc)
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is not between the years 1 and 9999, in UTC") from None


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90m, 12h, 7d or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
