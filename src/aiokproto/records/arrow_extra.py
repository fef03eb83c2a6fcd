"""The ``arrow`` extra: the libraries that convert records to columns, and tables to records."""

from __future__ import annotations

from importlib import import_module


def require_arrow() -> None:
    """Check that numpy and pyarrow are installed.

    Raises:
        ImportError: One of them is missing. The message says how to install it.
    """
    for name in ("numpy", "pyarrow"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ImportError(f'{name} is not installed: pip install "aiokproto[arrow]"', name=name) from error
