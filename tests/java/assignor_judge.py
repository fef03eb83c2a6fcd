"""What Kafka's own assignors compute: the Java program in ``assignors``, once for any number of cases."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.setup.project import MESSAGES_RELEASES, messages_jars
from tools.setup.system import find_java

PROGRAM = Path(__file__).parent / "assignors" / "Assignors.java"


def judge(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compile the program, and return its result for each case: see the program for their form."""
    java = find_java()
    assert java is not None
    jars = sorted(messages_jars(MESSAGES_RELEASES[0]).glob("*.jar"))
    compiler = next(jar for jar in jars if jar.name.startswith("ecj-"))
    classes = os.pathsep.join(map(str, (jar for jar in jars if jar != compiler)))
    with tempfile.TemporaryDirectory(prefix="aiokproto-java-") as folder:
        options = ("-17", "-nowarn", "-encoding", "UTF-8", "-cp", classes, "-d", folder)
        _run([java, "-jar", compiler, *options, PROGRAM], "")
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        output = _run([java, "-cp", f"{folder}{os.pathsep}{classes}", "Assignors"], lines)
    return [json.loads(line) for line in output.splitlines()]


def _run(command: Sequence[str | Path], lines: str) -> str:
    result = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, f"Java failed:\n{result.stdout}{result.stderr}"
    return result.stdout
