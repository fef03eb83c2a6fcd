"""``python -m aiokproto.codec``: the protocol on the command line."""

from __future__ import annotations

import io
import sys

from aiokproto.cli.codec.main import main

if __name__ == "__main__":
    # JSON is UTF-8, even if the locale says otherwise.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(main())
