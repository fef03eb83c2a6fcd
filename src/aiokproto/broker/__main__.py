"""``python -m aiokproto.broker``: the same as ``aiokproto broker``."""

from __future__ import annotations

import sys

from aiokproto.cli.broker import main

if __name__ == "__main__":
    sys.exit(main())
