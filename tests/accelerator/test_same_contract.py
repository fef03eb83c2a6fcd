"""A compiled form and its pure one are the same to a reader, an IDE, a debugger, pickle and a caller who is wrong.

What they compute is compared by the tests of each module. Compared here is everything else that a program can see.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiokproto.accelerator import compiled_names, forms
from aiokproto.producer.outcome import DeliveryContext, Outcome
from aiokproto.types import TimestampType, TopicPartition
from tests.accelerator.forms import not_compiled

Target = tuple[str, str]
TARGETS = compiled_names()
COMPILED = all("compiled" in forms(*target) for target in TARGETS)
pytestmark: list[pytest.MarkDecorator] = [] if COMPILED else [not_compiled]


def pair(target: Target) -> tuple[Any, Any]:
    found = forms(*target)
    return found["pure"], found["compiled"]


def is_class(target: Target) -> bool:
    return isinstance(forms(*target)["pure"], type)


def called(target: Target) -> str:
    return ".".join(target).removeprefix("aiokproto.")


CLASSES = [target for target in TARGETS if is_class(target)]
FUNCTIONS = [target for target in TARGETS if not is_class(target)]
each_target = pytest.mark.parametrize("target", TARGETS, ids=called)
each_class = pytest.mark.parametrize("target", CLASSES, ids=called)


def outcome() -> Outcome:
    """Return the outcome of a batch that was written at offset 5."""
    done = Outcome(TopicPartition("flights", 3), DeliveryContext())
    done.complete(2, 5, -1)
    return done


async def no_more() -> None:
    """Stand in for the source of further records."""


class Sample(NamedTuple):
    """How an instance is made, and what is done to it."""

    arguments: Callable[[], tuple[Any, ...]]
    attributes: tuple[str, ...] = ()
    """The public attributes."""
    value: bool = False
    """It is a value: it can be compared, printed, copied and pickled."""


RECORD = ("flights", 3, 2**62, -1, b"key", None, (("name", b"content"),), TimestampType.LOG_APPEND_TIME, 9)
SAMPLES = {
    "Record": Sample(
        lambda: RECORD,
        ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "timestamp_type", "leader_epoch"),
        value=True,
    ),
    "RecordMetadata": Sample(
        lambda: ("flights", 3, 2**62, 7), ("topic", "partition", "offset", "timestamp"), value=True
    ),
    "BatchRecord": Sample(
        lambda: (5, 7, b"key", None, (("name", None),)), ("offset", "timestamp", "key", "value", "headers"), value=True
    ),
    "RecordMaker": Sample(lambda: ("flights", 3, TimestampType.CREATE_TIME, 9)),
    "RecordWriter": Sample(lambda: (1000, 7), ("count", "size", "base_timestamp", "max_timestamp", "max_bytes")),
    "RecordAppender": Sample(lambda: (None,)),
    "RecordIterator": Sample(lambda: (forms("aiokproto.consumer.delivery", "DeliveryState")["compiled"](), no_more)),
    "ProduceResult": Sample(
        lambda: ("flights", 3),
        ("topic", "partition", "done", "written", "observed", "base_offset", "append_time"),
    ),
    "OpenBatchSlot": Sample(lambda: (), ("open",)),
    "TopicQueues": Sample(lambda: ("flights",), ("name", "queues", "available", "sticky", "sticky_bytes")),
    "DeliveryState": Sample(lambda: (), ("open", "current", "thread")),
    "Delivery": Sample(lambda: (outcome(), 1, 7), ("timestamp",)),
    "BatchSlice": Sample(lambda: (outcome(), 0, 2, 7), ("first", "count", "outcome")),
}

each_value = pytest.mark.parametrize("target", [target for target in CLASSES if SAMPLES[target[1]].value], ids=called)

EXTENSIBLE = {"RecordAppender"}
"""Only a base class (of Producer), whose pure form has no slots."""

BY_CYTHON = {
    "__reduce__",
    "__setstate__",
    "__setattr__",
    "__delattr__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
}
"""Special methods that Python's classes inherit from `object`, and compiled ones have for themselves."""

ADDED = {"Delivery": {"__iter__"}}
"""Special methods of compiled forms alone, whose sources say why."""

NO_METHODS = {
    *("__annotations__", "__dict__", "__doc__", "__final__", "__firstlineno__", "__module__", "__pyx_vtable__"),
    *("__reduce_cython__", "__setstate_cython__", "__signature__", "__slots__", "__static_attributes__", "__weakref__"),
}

AWAITABLES = {"post", "outcome"}
"""Coroutine functions that are compiled to plain ones: what they return is awaited in less time than a coroutine."""


def made(target: Target, form: Any) -> Any:
    return form(*SAMPLES[target[1]].arguments())


def content(target: Target, instance: Any) -> list[Any]:
    return [getattr(instance, name) for name in SAMPLES[target[1]].attributes]


def attempt(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return what a call returns, or the type of what it raises."""
    try:
        return call(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - any error is compared
        return type(error)


def public(form: type) -> list[str]:
    return [name for name in dir(form) if not name.startswith("_")]


def methods(form: type) -> list[str]:
    return [name for name in public(form) if callable(getattr(form, name))]


def special_methods(form: type) -> set[str]:
    """Return the special methods that a class does not have from `object`."""
    names = {name for name in dir(form) if name.startswith("__")} - NO_METHODS - {"__new__", "__init__"}
    # Two are notes of a generic class, for those who ask about types; the last two are what copying an object leaves
    # behind, and asking for annotations (Python 3.14).
    bound = {"__init_subclass__", "__subclasshook__", "__orig_bases__", "__parameters__", "__slotnames__"}
    bound.add("__annotations_cache__")
    return {name for name in names - bound if getattr(form, name, None) is not getattr(object, name, None)}


def described(form: Any) -> Any:
    """Return what `inspect` and `help` show of a function."""
    return inspect.signature(form), form.__doc__, form.__annotations__, form.__module__, form.__qualname__


def help_text(form: Any) -> list[str]:
    """Return the signatures and docstrings in the text of `help`, without what it says about the kind of a function."""
    lines = pydoc.plain(pydoc.render_doc(form)).splitlines()[2:]
    wording = re.compile(r"(built-in function |method of .* instance|from builtins\.object|unbound builtins\.)")
    return [wording.sub("", line).rstrip() for line in lines if line.strip(" |")]


def test_every_class_is_compared() -> None:
    assert sorted(SAMPLES) == sorted(name for _, name in CLASSES)


@each_target
def test_names_signatures_docstrings_and_annotations(target: Target) -> None:
    pure, compiled = pair(target)
    assert inspect.signature(pure) == inspect.signature(compiled)
    assert (pure.__doc__, pure.__module__, pure.__qualname__) == (
        compiled.__doc__,
        compiled.__module__,
        compiled.__qualname__,
    )
    if isinstance(pure, type):
        assert public(pure) == public(compiled)
        for name in methods(pure):
            assert described(getattr(pure, name)) == described(getattr(compiled, name)), name
    else:
        assert described(pure) == described(compiled)


@each_class
def test_coroutine_functions(target: Target) -> None:
    pure, compiled = pair(target)
    for name in set(methods(pure)) - AWAITABLES:
        assert inspect.iscoroutinefunction(getattr(pure, name)) == inspect.iscoroutinefunction(getattr(compiled, name))


@pytest.mark.parametrize("target", FUNCTIONS, ids=called)
def test_help_of_functions(target: Target) -> None:
    pure, compiled = pair(target)
    assert help_text(pure) == help_text(compiled)


@each_class
def test_help_of_classes(target: Target) -> None:
    """Each public method with its signature and docstring, after the docstring of the class."""
    pure, compiled = pair(target)
    text = "\n".join(help_text(compiled))
    for line in (pure.__doc__ or "").splitlines():
        assert line.strip() in text
    for name in methods(pure):
        for line in help_text(getattr(pure, name)):
            assert line.strip().removeprefix("async ") in text, name


@each_class
def test_attributes_are_set_and_deleted_alike(target: Target) -> None:
    seen = []
    for form in pair(target):
        instance = made(target, form)
        given = {name: getattr(instance, name, None) for name in (*SAMPLES[target[1]].attributes, "nonsense")}
        seen.append({name: attempt(setattr, instance, name, value) for name, value in given.items()})
    if target[1] in EXTENSIBLE:
        del seen[0]["nonsense"], seen[1]["nonsense"]
    assert seen[0] == seen[1]


@each_class
def test_attributes_that_do_not_exist(target: Target) -> None:
    for form in pair(target):
        with pytest.raises(AttributeError, match="nonsense"):
            made(target, form).nonsense  # noqa: B018 - reading it is the point


@each_class
def test_comparing_hashing_and_printing(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for form in pair(target):
        # The pure form compares with the class that its module has.
        monkeypatch.setattr(f"{target[0]}.{target[1]}", form)
        instance, again = made(target, form), made(target, form)
        hashed = attempt(hash, instance) if form.__eq__ is not object.__eq__ else "its identity"
        shown = repr(instance) if form.__repr__ is not object.__repr__ else "its type and identity"
        seen.append((instance == again, instance != again, instance == "text", hashed, shown))
    assert seen[0] == seen[1]


@each_class
def test_special_methods(target: Target) -> None:
    """What operators, built-in functions and statements find. Signatures of slots of C have no names to compare."""
    pure, compiled = (special_methods(form) for form in pair(target))
    assert pure - compiled == set()
    assert compiled - pure <= BY_CYTHON | ADDED.get(target[1], set())


@each_class
@pytest.mark.parametrize(
    "act", [copy.copy, copy.deepcopy, pickle.dumps, weakref.ref, bool, iter, len], ids=lambda act: act.__name__
)
def test_what_can_be_done_with_an_instance(target: Target, act: Callable[[Any], Any], monkeypatch: Any) -> None:
    seen = []
    for form in pair(target):
        monkeypatch.setattr(f"{target[0]}.{target[1]}", form)
        done = attempt(act, made(target, form))
        seen.append(done if isinstance(done, bool | type) else "done")
    extended = (
        weakref.ref if target[1] in EXTENSIBLE else None,
        iter if "__iter__" in ADDED.get(target[1], set()) else None,
    )
    if act not in extended:
        assert seen[0] == seen[1]


@each_class
@pytest.mark.parametrize("value", [None, "text", 2**70], ids=repr)
def test_an_attribute_of_another_type_is_kept_or_refused(target: Target, value: object) -> None:
    """The pure form keeps anything; compiled attributes may have a type of C, which a type checker refuses for both."""
    for name in SAMPLES[target[1]].attributes:
        pure, compiled = (made(target, form) for form in pair(target))
        before = getattr(compiled, name, None)
        expected, found = attempt(setattr, pure, name, value), attempt(setattr, compiled, name, value)
        if found is None:
            # A flag of C keeps the truth of it.
            assert getattr(compiled, name) in (value, bool(value)), name
        else:
            assert found in (expected, TypeError, OverflowError), name
            assert getattr(compiled, name, None) == before, name


@each_value
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_values_are_copied(target: Target, copied: Callable[[Any], Any]) -> None:
    for form in pair(target):
        instance = made(target, form)
        twice = copied(instance)
        assert type(twice) is form
        assert content(target, twice) == content(target, instance)


@each_value
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(("writer", "reader"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_pickle_of_either_form_loads_as_the_form_in_use(
    target: Target, writer: int, reader: int, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms_of = pair(target)
    monkeypatch.setattr(f"{target[0]}.{target[1]}", forms_of[writer])
    instance = made(target, forms_of[writer])
    stored = pickle.dumps(instance, protocol)
    monkeypatch.setattr(f"{target[0]}.{target[1]}", forms_of[reader])
    loaded = pickle.loads(stored)
    assert type(loaded) is forms_of[reader]
    assert content(target, loaded) == content(target, instance)


@each_class
def test_subclasses(target: Target) -> None:
    """A class that cannot be subclassed when it is compiled is `final` to type checkers."""
    pure, compiled = pair(target)
    subclassed = attempt(type, "Sub", (compiled,), {})
    # Before Python 3.11 `final` leaves no mark on the class.
    if sys.version_info >= (3, 11):
        assert getattr(pure, "__final__", False) == (subclassed is TypeError)
    if isinstance(subclassed, type) and subclassed is not TypeError:
        assert subclassed.__mro__[1] is compiled


@each_target
@pytest.mark.parametrize(("count", "named"), [(0, ()), (12, ()), (0, ("nonsense",))], ids=["none", "many", "unknown"])
def test_wrong_calls_raise_the_same_error(target: Target, count: int, named: tuple[str, ...]) -> None:
    pure, compiled = (attempt(form, *[None] * count, **dict.fromkeys(named)) for form in pair(target))
    if isinstance(pure, type) or isinstance(compiled, type):
        assert pure is compiled
