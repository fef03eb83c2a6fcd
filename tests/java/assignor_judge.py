"""What Kafka's own assignors compute: the Java program in ``assignors``, once for any number of cases."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.java import compiler

PROGRAM = compiler.PROGRAMS / "assignors" / "Assignors.java"


def judge(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compile the program, and return its result for each case: see the program for their form."""
    with tempfile.TemporaryDirectory(prefix="aiokproto-java-") as folder:
        compiler.compile_java(PROGRAM, Path(folder))
        output = compiler.run(
            compiler.command(Path(folder), "Assignors"), "".join(json.dumps(case) + "\n" for case in cases)
        )
    return [json.loads(line) for line in output.splitlines()]
