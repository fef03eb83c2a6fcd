"""What Kafka's own assignors compute: the Java program in ``assignors``, once for any number of cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.java import compiler

PROGRAM = compiler.PROGRAMS / "assignors" / "Assignors.java"


def judge(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the program's result for each case: see the program for their form."""
    output = compiler.run(
        compiler.command(PROGRAM, "Assignors", compiler.SILENT), "".join(json.dumps(case) + "\n" for case in cases)
    )
    return [json.loads(line) for line in output.splitlines()]
