"""The seam between the pure Python of the hot paths and their compiled twins.

A function or class marked with :func:`twin` is the definition: it is read, type-checked and documented. Its compiled
form has the same name, in the module of the same name with a leading underscore (``records/crc.py`` and
``records/_crc.pyx``), and replaces it where that module was compiled. The environment variable ``AIOKPROTO_PURE``
(anything but empty or ``0``) turns that off. This package holds what several compiled modules share.

Compiled modules declare that they work without the global interpreter lock (``setup.py``). This is what makes it true:

- What a compiled module keeps is written while it is loaded, and never again.
- A client's objects belong to the thread of its event loop. `RecordAppender`, which any thread can call, compares the
  thread before it looks at anything else. An open batch and the state of a consumer's delivery are changed in critical
  sections, and so are the attributes of compiled classes, by Cython: another thread may find records that it did not
  expect, but no memory that was freed.
- An awaitable has one awaiter, as a coroutine has.
- Arrays and buffers of others may change at any time. Each number in them is read once; what is written is limited by
  the size of the memory it goes to, which was measured before and cannot change.
"""

from __future__ import annotations

import os
from importlib import import_module

# Type checkers go by the name; importing typing would take longer than the rest of this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, TypeVar

    T = TypeVar("T", bound=Callable[..., Any])

accelerated: bool
"""Whether every compiled form is in use: all were compiled and can be loaded, and ``AIOKPROTO_PURE`` is not set."""

COMPILED = (
    "aiokproto._types",
    "aiokproto.accelerator.awaiting",
    "aiokproto.accelerator.views",
    "aiokproto.codec._frames",
    "aiokproto.consumer._delivery",
    "aiokproto.producer._appender",
    "aiokproto.producer._delivery",
    "aiokproto.producer._outcome",
    "aiokproto.producer._partitioner",
    "aiokproto.producer._queue",
    "aiokproto.records._columns",
    "aiokproto.records._crc",
    "aiokproto.records._record",
    "aiokproto.records._rows",
    "aiokproto.records._runs",
    "aiokproto.records._scan",
    "aiokproto.records._writer",
)
"""All compiled modules, listed because a module that was not compiled looks like one that never existed."""

_on = os.environ.get("AIOKPROTO_PURE", "") in ("", "0")
_FUNCTION = type(lambda: None)
_forms: dict[tuple[str, str], dict[str, Any]] = {}
_pure_classes: dict[type, type] = {}


def twin(pure: T) -> T:
    """Return the compiled form of a function or class, or ``pure`` where there is none. Used as a decorator."""
    forms = _forms[pure.__module__, pure.__name__] = {"pure": pure}
    package, _, module = pure.__module__.rpartition(".")
    compiled = getattr(_load(f"{package}._{module}"), pure.__name__, None)
    if compiled is None:
        return pure
    forms["compiled"] = compiled
    _describe(compiled, pure)
    chosen: T = compiled
    return chosen


def _describe(compiled: Any, pure: Any) -> None:
    """Give the compiled form what is written only once: names, docstrings and annotations."""
    if isinstance(compiled, type):
        _pure_classes[compiled] = pure
        for name, method in vars(pure).items():
            if isinstance(method, _FUNCTION) and not name.startswith("_"):
                _describe_function(getattr(compiled, name), method)
    else:
        _describe_function(compiled, pure)


def _describe_function(compiled: Any, pure: Any) -> None:
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(compiled, name, getattr(pure, name))


class Documentation:
    """The docstring of a compiled class: that of its pure form. Stands in the class body as ``__doc__``."""

    def __get__(self, instance: object, owner: type) -> str | None:
        return getattr(_pure_classes.get(owner), "__doc__", None)


class Signature:
    """What :func:`inspect.signature` finds for a compiled class. Stands in the class body as ``__signature__``."""

    def __get__(self, instance: object, owner: type) -> Any:
        for base in owner.__mro__:
            pure = _pure_classes.get(base)
            # A subclass with an `__init__` of its own has the signature of that.
            if pure is not None and owner.__init__ is base.__init__:  # type: ignore[misc]
                # Importing inspect takes long, and most programs never look here.
                from inspect import signature

                return signature(pure)
        raise AttributeError("__signature__")


def forms(module: str, name: str) -> dict[str, Any]:
    """Return both forms of what ``module`` marks as `twin`: ``"pure"``, and ``"compiled"`` where that is in use.

    Raises:
        LookupError: ``module`` marks nothing of that name.
    """
    import_module(module)
    found = _forms.get((module, name))
    if found is None:
        raise LookupError(f"{module} has no twin called {name!r}")
    return dict(found)


def twins() -> list[tuple[str, str]]:
    """Return module and name of everything that is marked as `twin`."""
    for name in COMPILED:
        package, _, module = name.rpartition(".")
        if module.startswith("_"):
            import_module(f"{package}.{module[1:]}")
    return sorted(_forms)


def pure_form(module: str, name: str) -> Any:
    """Return the pure form alone: compiled code calls it for input that is unusual, or wrong."""
    return forms(module, name)["pure"]


def _load(name: str) -> ModuleType | None:
    """Return a compiled module, or None. One that exists but cannot be loaded turns off all that is not loaded yet."""
    global _on
    if not _on:
        return None
    try:
        return import_module(name)
    except Exception as error:  # noqa: BLE001 - an extension of another build can raise anything
        # A module that was never compiled is no fault.
        if not (isinstance(error, ModuleNotFoundError) and error.name == name):
            import logging

            _on = False
            logging.getLogger("aiokproto").warning("going on in pure Python: %s cannot be loaded: %s", name, error)
        return None


def __getattr__(name: str) -> bool:
    """Return ``accelerated``. It is computed on demand, because all compiled modules have to be loaded for it."""
    if name != "accelerated":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return None not in [_load(module) for module in COMPILED]
