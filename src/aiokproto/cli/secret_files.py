"""Files with secrets that must not be on a command line, where others can read them (``ps``).

Each option that takes ``NAME=VALUE`` has a counterpart that takes a file with such pairs.
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
        separator: The separator between name and value.
        form: What a line should look like, for errors.

    Raises:
        argparse.ArgumentTypeError: The file can't be read, a line isn't a pair, or a name is given twice. The message
            contains only line numbers, because the text of a line can be a secret.
    """
    try:
        # splitlines() would also split passwords that contain a form feed or a Unicode line separator.
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
    """Check that a file exists, warn if other users can read it, and return its path.

    Raises:
        argparse.ArgumentTypeError: The file doesn't exist.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
    # A pipe, such as from <(…), is private, and Windows has a different permission model.
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077 and sys.stderr is not None:
        sys.stderr.write(f"warning: {path} can be read or written by others: chmod 600 {path}\n")
    return Path(path)
