"""Folders that are made once, in ``.cache``, for all workers and all later runs."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return the folder. If it doesn't exist, ``make`` fills it under another name first, so it is never incomplete.

    The folder's name has to change with its content.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder
