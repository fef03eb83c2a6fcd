"""Files with secrets that must not be on a command line, where others can read them (``ps``).

Each option that takes ``NAME=VALUE`` has a counterpart that takes a file of these.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from pathlib import Path


def pairs(path: str, separator: str, form: str) -> dict[str, str]:
    """Read a file of pairs, one per line. Lines that are empty or start with ``#`` are left out.

    Args:
        path: The file.
        separator: The text between name and value.
        form: How a line should look, for errors.

    Raises:
        argparse.ArgumentTypeError: The file can't be read, a line isn't a pair, or a name is given twice. The error
            names lines by their number, because their text can be a secret.
    """
    try:
        # splitlines() would end lines within passwords: at a form feed, or a line separator of Unicode.
        lines = existing(path).read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        # The original error contains the bytes.
        raise argparse.ArgumentTypeError(f"{path} is not UTF-8") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separated, value = line.partition(separator)
        if not (name.strip() and separated):
            raise argparse.ArgumentTypeError(f"{path}, line {number}: not {form}")
        if name.strip() in found:
            raise argparse.ArgumentTypeError(f"{path}, line {number}: {name.strip()!r} is given twice")
        found[name.strip()] = value.strip()
    return found


def existing(path: str) -> Path:
    """Return the path of a file that exists, after a warning if others can read it.

    Raises:
        argparse.ArgumentTypeError: The file doesn't exist.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
    # A pipe, as of <(…), is private, and Windows has other permissions.
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077 and sys.stderr is not None:
        sys.stderr.write(f"warning: {path} can be read or written by others: chmod 600 {path}\n")
    return Path(path)
