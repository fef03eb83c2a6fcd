"""The snippets of the README are programs: each runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.docs.snippets import ROOT, Snippet, snippets
from tests.timeouts import LONG_TIMEOUT

ALL = snippets(ROOT / "README.md")
SPARK = (pytest.mark.spark, pytest.mark.extended)


@pytest.mark.parametrize(
    "snippet",
    [
        pytest.param(snippet, marks=SPARK if "pyspark" in snippet.code else (), id=f"line {snippet.line}")
        for snippet in ALL
    ],
)
def test_a_snippet_runs_as_it_stands(snippet: Snippet) -> None:
    command = [sys.executable, "-W", "ignore", "-c", snippet.code]
    # Spark's workers are otherwise the first python3 of the path.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * LONG_TIMEOUT, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "it shows what it does"


def test_there_are_snippets() -> None:
    assert len(ALL) >= 4
