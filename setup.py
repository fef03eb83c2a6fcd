"""The extension modules of the accelerator; everything else is in ``pyproject.toml``.

In place, for work on them: ``python setup.py build_ext --inplace``. Where they cannot be compiled the package is
installed without them. ``AIOKPROTO_PURE=1`` leaves them out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

SRC = Path("src")
CYTHON = {
    # The C it writes is no source, and has no place beside them.
    "cython_c_in_temp": True,
    "cython_directives": {
        # Free-threaded Python would otherwise get its global lock back. `aiokproto.accelerator` says why it is not
        # needed.
        "freethreading_compatible": True,
        # An attribute of None is an AttributeError, as in the Python form, and not a crash of the process. A variable
        # that cannot be None (`self`, and what was just made) is not tested; the rest costs less than can be measured.
        "nonecheck": True,
    },
}
"""Cython's settings, as its ``build_ext`` reads them from an extension."""


def extensions() -> list[Extension]:
    wanted = os.environ.get("AIOKPROTO_PURE", "") in ("", "0")
    # PyPy compiles the Python form better.
    if not wanted or sys.implementation.name != "cpython":
        return []
    shared = [path.as_posix() for path in sorted(SRC.rglob("*.pxd"))]
    return [extension(path, shared) for path in sorted(SRC.rglob("*.pyx"))]


def extension(source: Path, shared: list[str]) -> Extension:
    name = ".".join(source.relative_to(SRC).with_suffix("").parts)
    module = Extension(name, [source.as_posix()], depends=shared, optional=True)
    vars(module).update(CYTHON)
    return module


setup(ext_modules=extensions())
