"""The version of this package, in a module of its own so that anything may import it."""

from __future__ import annotations

__version__ = "0.1.0.dev0"
