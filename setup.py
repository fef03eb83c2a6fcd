"""The extension modules of the accelerator; everything else is in ``pyproject.toml``.

In place, for work on them: ``python setup.py build_ext --inplace``. Where they cannot be compiled the package is
installed without them. ``AIOKPROTO_PURE=1`` leaves them out.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

SRC = Path("src")


def extensions() -> list[Extension]:
    wanted = os.environ.get("AIOKPROTO_PURE", "") in ("", "0")
    # PyPy compiles the Python form better; a Python without the GIL would get it back from a module that relies on it.
    if not wanted or sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []
    shared = [path.as_posix() for path in sorted(SRC.rglob("*.pxd"))]
    return [extension(path, shared) for path in sorted(SRC.rglob("*.pyx"))]


def extension(source: Path, shared: list[str]) -> Extension:
    name = ".".join(source.relative_to(SRC).with_suffix("").parts)
    module = Extension(name, [source.as_posix()], depends=shared, optional=True)
    # Cython's own setting: the C it writes is no source, and has no place beside them.
    vars(module)["cython_c_in_temp"] = True
    return module


setup(ext_modules=extensions())
