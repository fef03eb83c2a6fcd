"""Compiled forms of the hot paths, and the code that chooses between them and pure Python.

A function or class marked with :func:`has_compiled_form` is the definition: that's the form to read, type-check and
document. Its compiled form has the same name, in a module of the same name with a leading underscore
(``records/crc.py`` and ``records/_crc.pyx``), and replaces it if that module was compiled. The environment variable
``AIOKPROTO_PURE`` (set to anything but empty or ``0``) turns that off. This package also contains code that several
compiled modules share.

Compiled modules declare that they work without the global interpreter lock (``setup.py``). These rules make that true:

- A compiled module writes its globals while it is loaded, and never again.
- A client's objects belong to the thread of its event loop. `RecordAppender`, which any thread can call, compares the
  thread before it looks at anything else. An open batch and the state of a consumer's delivery change only in critical
  sections, and Cython guards the attributes of compiled classes in the same way. So another thread may find records
  that it didn't expect, but never memory that was freed.
- An awaitable has only one awaiter, like a coroutine.
- Arrays and buffers that others own may change at any time. The code reads each number in them once, and never writes
  more than fits into the target memory. It has measured that size before, and the size can't change.
"""

from __future__ import annotations

import os
from importlib import import_module

# Type checkers recognize the name. Importing it from typing would take longer than the rest of this module.
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


def has_compiled_form(pure: T) -> T:
    """Return the compiled form of a function or class, or ``pure`` if there is none. Used as a decorator."""
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
    """Copy the names, docstrings and annotations, which only the pure form spells out, to the compiled form."""
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
    """The docstring of a compiled class, taken from its pure form. Set it in the class body as ``__doc__``."""

    def __get__(self, instance: object, owner: type) -> str | None:
        return getattr(_pure_classes.get(owner), "__doc__", None)


class Signature:
    """The signature of a compiled class for :func:`inspect.signature`. Set it in the class as ``__signature__``."""

    def __get__(self, instance: object, owner: type) -> Any:
        for base in owner.__mro__:
            pure = _pure_classes.get(base)
            # A subclass with its own `__init__` has the signature of that method.
            if pure is not None and owner.__init__ is base.__init__:  # type: ignore[misc]
                # Import it here: importing inspect takes long, and most programs never need it.
                from inspect import signature

                return signature(pure)
        raise AttributeError("__signature__")


def forms(module: str, name: str) -> dict[str, Any]:
    """Return both forms of a name in ``module``: ``"pure"``, and ``"compiled"`` if that form is in use.

    Raises:
        LookupError: ``module`` doesn't mark anything of that name.
    """
    import_module(module)
    found = _forms.get((module, name))
    if found is None:
        raise LookupError(f"{module} has no compiled form of {name!r}")
    return dict(found)


def compiled_names() -> list[tuple[str, str]]:
    """Return module and name of everything that is marked with :func:`has_compiled_form`."""
    for name in COMPILED:
        package, _, module = name.rpartition(".")
        if module.startswith("_"):
            import_module(f"{package}.{module[1:]}")
    return sorted(_forms)


def pure_form(module: str, name: str) -> Any:
    """Return only the pure form. Compiled code calls it for unusual or wrong input."""
    return forms(module, name)["pure"]


def _load(name: str) -> ModuleType | None:
    """Return a compiled module, or None.

    A module that exists but can't be loaded turns off all compiled forms that aren't loaded yet.
    """
    global _on
    if not _on:
        return None
    try:
        return import_module(name)
    except Exception as error:  # noqa: BLE001 - an extension of another build can raise anything
        # It isn't an error if the module was never compiled.
        if not (isinstance(error, ModuleNotFoundError) and error.name == name):
            import logging

            _on = False
            logging.getLogger("aiokproto").warning("going on in pure Python: %s cannot be loaded: %s", name, error)
        return None


def __getattr__(name: str) -> bool:
    """Return ``accelerated``. It's computed on demand, because that loads all compiled modules."""
    if name != "accelerated":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return None not in [_load(module) for module in COMPILED]
