"""Kafka's command line tools, run in one Java process; their output is reduced to lines that can be compared."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tests.java.compiler import compiled
from tests.timeouts import LONG_TIMEOUT
from tools.setup.project import tools_jars
from tools.setup.system import find_java

if TYPE_CHECKING:
    from typing_extensions import Self

SECONDS = 3 * LONG_TIMEOUT
"""The longest that a tool may take."""

PACKAGES = {
    "ConfigCommand": "kafka.admin",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer",
    "ConsoleShareConsumer": "org.apache.kafka.tools.consumer",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign",
    "ShareGroupCommand": "org.apache.kafka.tools.consumer.group",
    "StreamsGroupCommand": "org.apache.kafka.tools.streams",
}
"""Tools that aren't in `org.apache.kafka.tools`."""

ALONE = {"VerifiableProducer"}
"""Tools that end their work only when their process ends, so each call needs its own process."""


@dataclass(frozen=True)
class Written:
    """What a tool has written: its exit code, its output and its errors."""

    code: int
    output: str
    errors: str

    @property
    def text(self) -> str:
        return f"{self.output}\n{self.errors}"


class Tools:
    """A Java process that runs tools, one at a time."""

    def __init__(self, folder: Path) -> None:
        (jar,) = tools_jars().glob("kafka-tools-[0-9]*.jar")
        # The tools themselves are loaded again for each call, so they must not be on this path.
        libraries = [path for path in sorted(tools_jars().glob("*.jar")) if path != jar]
        classes = compiled(Path(__file__).parent / "third_party" / "tools", libraries)
        # These are many short runs, for which optimized compilation would not pay off.
        self._java = [str(find_java()), "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp"]
        self._libraries = os.pathsep.join(map(str, (classes, *libraries)))
        self._jar = str(jar)
        self._process = subprocess.Popen(
            [*self._java, self._libraries, "Tools", self._jar],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the process's input; the process ends at its end."""
        self._process.communicate(timeout=SECONDS)

    def call(self, tool: str, *arguments: str, typed: str = "") -> Written:
        """Run a tool. ``typed`` is its input. A tool that takes too long is killed, and so are all tools after it."""
        name = f"{PACKAGES.get(tool, 'org.apache.kafka.tools')}.{tool}"
        if tool in ALONE:
            command = [*self._java, os.pathsep.join([self._libraries, self._jar]), name, *arguments]
            done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=SECONDS, check=False)
            return Written(done.returncode, done.stdout, done.stderr)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        call = {"tool": name, "arguments": arguments, "input": typed}
        patience = threading.Timer(SECONDS, self._process.kill)
        patience.start()
        try:
            self._process.stdin.write(f"{json.dumps(call)}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        finally:
            patience.cancel()
            patience.join()
        assert answer, f"{tool} {shlex.join(arguments)} took more than {SECONDS} s, or ended the process"
        return Written(**json.loads(answer))


@dataclass(frozen=True)
class Step:
    """A line of a script: ``! Tool --argument ... << typed words => expected output``.

    Attributes:
        line: The line.
        words: The tool and its arguments.
        typed: The words that are typed, each in a line.
        expected: Text that the output contains; after ``not``, text that it doesn't contain.
        fails: ``!``, whether the tool exits with an error.
        own: ``~`` or ``?``, whether the output differs from broker to broker.
        ends_early: ``?``, whether the tool may end before it has read everything.
    """

    line: str
    words: list[str]
    typed: str
    expected: str
    fails: bool
    own: bool
    ends_early: bool

    @classmethod
    def parse(cls, line: str) -> Step:
        rest, _, expected = line.partition(" => ")
        rest, _, typed = rest.partition(" << ")
        sign, rest = (rest[0], rest[2:]) if rest[0] in "!~?" else ("", rest)
        typed = "".join(f"{word}\n" for word in typed.split())
        return cls(line, shlex.split(rest), typed, expected, sign == "!", sign in ("~", "?"), sign == "?")

    @property
    def looks(self) -> bool:
        """Whether the step only reads."""
        return self.words[0] == "GetOffsetShell" or not _LOOKS.isdisjoint(self.words)

    def fits(self, text: str) -> bool:
        """Whether the output is as expected."""
        return self.expected[4:] not in text if self.expected.startswith("not ") else self.expected in text

    def transcript(self, written: Written, servers: str) -> list[str]:
        """The line and the output, in lines that can be compared."""
        if self.fails:
            return [self.line, *sorted(set(re.findall(r"errors\.(\w+)", written.text)))]
        return [self.line, *([] if self.own else sorted(filter(None, mask(written.text, servers).splitlines())))]


_LOOKS = {
    "--describe",
    "--list",
    "cluster-id",
    "describe",
    "describe-producers",
    "find-hanging",
    "list",
    "list-endpoints",
}


def steps(script: str) -> list[Step]:
    return [Step.parse(line.strip()) for line in script.strip().splitlines()]


Transcript = list[list[str]]
"""The compared output of each step of a script."""


def _nothing() -> None:
    """For a cluster whose nodes apply changes at once."""


def play(
    tools: Tools,
    servers: str,
    script: str,
    names: Mapping[str, str] | None = None,
    *,
    like: Transcript | None = None,
    settle: Callable[[], None] = _nothing,
) -> Transcript:
    """Run the steps of a script against a cluster.

    In a step, ``{servers}`` and ``names`` are filled in. A step without ``{servers}`` gets ``--bootstrap-server``.

    Args:
        tools: The tools.
        servers: The cluster.
        script: The steps.
        names: What to fill in.
        like: The transcript of another cluster. This cluster's nodes may apply changes later, so a step is repeated
            until it writes what is expected. A step that only reads is repeated until it writes the same.
        settle: Called after each step that changes something. Returns when all nodes have applied the change.
    """
    transcript: Transcript = []
    for step in steps(script):
        tool, *arguments = [word.replace("{servers}", servers) for word in step.words]
        for name, value in (names or {}).items():
            arguments = [word.replace(f"{{{name}}}", value) for word in arguments]
        if "{servers}" not in step.line:
            arguments = ["--bootstrap-server", servers, *arguments]
        wanted = like[len(transcript)] if like is not None and step.looks else None
        until = time.monotonic() + (LONG_TIMEOUT if like is not None or step.ends_early else 0)
        while True:
            written = tools.call(tool, *arguments, typed=step.typed)
            lines = step.transcript(written, servers)
            if (step.fits(written.text) and wanted in (None, lines)) or time.monotonic() >= until:
                break
        assert (written.code != 0) == step.fails, f"{step.line}\n{written.text}"
        assert step.fits(written.text), f"{step.line}\n{written.text}"
        assert wanted in (None, lines), f"{step.line}\ngot {lines}\nexpected {wanted}"
        transcript.append(lines)
        if not step.looks:
            settle()
    return transcript


_MASKS = [
    # The words of a refusal differ from broker to broker.
    (r"(errors\.\w+): .*", r"\1"),
    (r"\tat .*|Caused by: .*", ""),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>"),
    (r"[\w+/-]{22}(?= /127\.0\.0\.1 )", "<uuid>"),
    (r'(TopicId: |"clusterId": |Cluster ID: )[\w-]{22}', r"\1<uuid>"),
    (r'"/[^"]*"', "<directory>"),
    (r"(?<![.\d])1[67]\d{11}\b", "<time>"),
    (r"\b\d{4}[-/]\d\d[-/]\d\d[ T][\d:.,]+", "<time>"),
    (r"127\.0\.0\.1", "<host>"),
    (r"\b\d+(\.\d+)? (ms|MB/sec|records/sec)", r"<n> \2"),
    (r"(?<![\w.])\d+\.\d+(E-?\d+)?(?=[,\s\]}]|$)", "<n>"),
    (r" +", " "),
]


def mask(text: str, servers: str) -> str:
    """Return the parts that are the same for every cluster, without addresses, ids, times and speeds."""
    for number, server in enumerate(servers.split(",")):
        text = text.replace(server, f"<server {number}>").replace(server.replace(":", " "), f"<server {number}>")
    for pattern, with_what in _MASKS:
        text = re.sub(pattern, with_what, text)
    return re.sub(r"(?<=Isr: )[\d,]+", lambda found: ",".join(sorted(found[0].split(","))), text)
