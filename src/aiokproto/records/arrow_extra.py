"""The ``arrow`` extra: what turns records into columns, and tables into records."""

from __future__ import annotations

from importlib import import_module


def require_arrow() -> None:
    """Check that numpy and pyarrow are installed.

    Raises:
        ImportError: One is missing. The text says how to install it.
    """
    for name in ("numpy", "pyarrow"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ImportError(f'{name} is not installed: pip install "aiokproto[arrow]"', name=name) from error
