"""``python -m aiokproto``: the command line."""

from __future__ import annotations

import sys

from aiokproto.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
