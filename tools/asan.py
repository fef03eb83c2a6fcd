"""``python -m tools.asan``: the tests of compiled code, with the sanitizers of addresses and of undefined behaviour.

A read or write outside a buffer, a use after free, a signed overflow or a shift too far ends the run with where it was.
It takes gcc on Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.setup.project import ROOT
from tools.setup.system import MissingError, run

FOLDER = ROOT / "build" / "asan"
PACKAGE = FOLDER / "lib"
TESTS = ("tests/accelerator", "tests/records", "tests/producer", "tests/consumer")
MARKS = "not java and not kafka and not spark"
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1"


def main() -> int:
    try:
        build()
        return test()
    except MissingError as error:
        print(f"not good: {error}")
        return 1


def build() -> None:
    """Compile the accelerator into a package that stands beside the one in use."""
    environment = {**os.environ, "CC": "gcc", "CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    environment.pop("AIOKPROTO_PURE", None)
    where: list[str | Path] = ["--build-base", FOLDER, "--build-lib", PACKAGE, "--build-temp", FOLDER / "temp"]
    run([sys.executable, "setup.py", "-q", "build", *where], environment)


def test() -> int:
    environment = {
        **os.environ,
        "PYTHONPATH": str(PACKAGE),
        # Python itself is not compiled for the sanitizers: their library has to be there first, and see every object.
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    environment.pop("AIOKPROTO_PURE", None)
    ask = [sys.executable, "-c", "import aiokproto; print(aiokproto.accelerated, aiokproto.__file__)"]
    output = subprocess.run(ask, env=environment, capture_output=True, text=True, check=True).stdout
    if not output.startswith(f"True {PACKAGE}"):
        raise MissingError(f"the compiled package is not the one in {PACKAGE}: accelerated, and where: {output}")
    # A sanitizer writes its report and ends the process: pytest must not hold what is written to stderr.
    pytest = [sys.executable, "-m", "pytest", "-q", "--capture=sys", "-p", "no:cacheprovider", "-m", MARKS, *TESTS]
    return subprocess.run(pytest, env=environment, cwd=ROOT, check=False).returncode


def library(name: str) -> Path:
    """Where gcc has the library of a sanitizer."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    return Path(found.strip())


if __name__ == "__main__":
    sys.exit(main())
