"""The seam between the pure Python of the hot paths and their compiled twins.

A function or class marked ``@twin(...)`` is the definition: what is read, type-checked and documented. Where the
accelerator was compiled, its twin of the same name takes its place, and does the same in less time. The environment
variable ``AIOKPROTO_PURE`` (anything but empty or ``0``) turns that off.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

# The name is what type checkers go by; importing typing would take longer than all of this.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, TypeVar

    T = TypeVar("T")

accelerated: bool
"""Whether the accelerator is in use: it was compiled, it can be loaded, and ``AIOKPROTO_PURE`` does not turn it off."""

_on = os.environ.get("AIOKPROTO_PURE", "") in ("", "0")
_FUNCTION = type(lambda: None)
_forms: dict[tuple[str, str], dict[str, Any]] = {}


def twin(module: str) -> Callable[[T], T]:
    """Mark a function or class as one with a compiled twin, and put that in its place where there is one.

    Args:
        module: The module of this package that has the twin, under the same name.
    """

    def choose(pure: Any) -> Any:
        forms = _forms[pure.__module__, pure.__name__] = {"pure": pure}
        compiled = getattr(_load(module), pure.__name__, None)
        if compiled is not None:
            forms["compiled"] = compiled
            _document(compiled, pure)
        return compiled or pure

    return choose


def _document(compiled: Any, pure: Any) -> None:
    """Say of the compiled form, and of its public methods, what is written once, at the pure one."""
    if not isinstance(compiled, type):
        compiled.__doc__ = pure.__doc__
        return
    # What a type of C says of itself cannot be assigned. Where it says nothing, its dictionary is asked, of which only
    # the collector of garbage gives out more than a view.
    gc.get_referents(compiled.__dict__)[0].update(__doc__=pure.__doc__, __signature__=_Signature(compiled, pure))
    for name, method in vars(pure).items():
        if not name.startswith("_") and isinstance(method, _FUNCTION):
            twin = getattr(compiled, name)
            twin.__doc__, twin.__annotations__ = method.__doc__, method.__annotations__


class _Signature:
    """What :func:`inspect.signature` asks a class for, found when it is asked for: importing inspect takes long."""

    def __init__(self, compiled: type, pure: type) -> None:
        self._compiled = compiled
        self._pure = pure

    def __get__(self, instance: object, owner: type) -> Any:
        if owner is not self._compiled:
            # Of a subclass, which has its own.
            raise AttributeError("__signature__")
        from inspect import signature

        return signature(self._pure)


def forms(module: str, name: str) -> dict[str, Any]:
    """Both forms of what ``module`` marks as `twin`: ``"pure"``, and ``"compiled"`` where that is in use.

    Raises:
        LookupError: ``module`` marks nothing of that name.
    """
    import_module(module)
    found = _forms.get((module, name))
    if found is None:
        raise LookupError(f"{module} has no twin called {name!r}")
    return dict(found)


def _load(module: str) -> ModuleType | None:
    """A compiled module, or None. One that is there but cannot be loaded turns off all that is not loaded yet."""
    global _on
    if not _on:
        return None
    name = f"{__name__}.{module}"
    try:
        return import_module(name)
    except Exception as error:  # noqa: BLE001 - what an extension of another build raises is anything but foreseeable
        # One that was never compiled is nothing to speak of.
        if not (isinstance(error, ModuleNotFoundError) and error.name == name):
            import logging

            _on = False
            logging.getLogger("aiokproto").warning("going on in pure Python: %s cannot be loaded: %s", name, error)
        return None


def __getattr__(name: str) -> bool:
    """Find out whether the accelerator is in use only when that is asked: all of it has to be loaded to know."""
    if name != "accelerated":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pkgutil import iter_modules

    loaded = [_load(entry.name) for entry in iter_modules(__path__)]
    return bool(loaded) and None not in loaded
