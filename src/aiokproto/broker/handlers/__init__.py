"""One module an API, named as its messages' module: ``REQUEST``, the ``VERSIONS`` served, and ``handle``.

A handler builds one response for all versions; the codec writes what the version at hand has. It returns None where no
answer is due, and raises ``Hangup`` where the connection must be closed. Being in this folder is what makes it served.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

_ALL = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]

MODULES = tuple(module for module in _ALL if hasattr(module, "REQUEST"))
"""The handlers; what several of them share is here, too."""
