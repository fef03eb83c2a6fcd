"""Every public parameter and option that takes code of the application: a function, or an object with methods to call.

They are read from the annotations, by name: an annotation that is only true for type checkers cannot be evaluated.
"""

from __future__ import annotations

import ast
import collections.abc
import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from aiokproto.group.assignors import Assignor
from aiokproto.group.streams_member import StreamsListener
from aiokproto.hooks import Hooks
from aiokproto.interceptors import Interceptor
from tests.docs.test_api import ENTRIES, PACKAGES

BASE_CLASSES = (Hooks, Interceptor, Assignor, StreamsListener)
"""Classes that the application derives from; protocols are found by themselves."""

MODULES = (
    *(f"aiokproto.{name}" for name in PACKAGES),
    "aiokproto.group.assignors",
    "aiokproto.prometheus",
    "aiokproto.otel",
    "aiokproto.spark",
    "aiokproto.spark.loads",
)

OPTIONS = (
    ("aiokproto.security.option_types", "SaslOptions"),
    ("aiokproto.config.connection", "ConnectionOptions"),
    ("aiokproto.broker.control.faults", "RequestFilter"),
)
"""Options that many calls take by keyword."""


@functools.cache
def callable_options() -> frozenset[str]:
    """Return each, as ``Consumer.run(handler)`` or ``ConnectionOptions[hooks]``."""
    found: set[str] = set()
    for cls in _classes():
        for method in _methods(cls):
            name = cls.__name__ if method.__name__ in ("__init__", "__new__") else f"{cls.__name__}.{method.__name__}"
            found |= {f"{name}({parameter})" for parameter in _of_signature(method)}
    for function in _functions():
        found |= {f"{function.__name__}({parameter})" for parameter in _of_signature(function)}
    seen: set[str] = set()
    for module, name in OPTIONS:
        # Inherited ones are those of the first.
        options = {
            option: kind
            for option, kind in getattr(importlib.import_module(module), name).__annotations__.items()
            if option not in seen
        }
        seen |= options.keys()
        found |= {f"{name}[{option}]" for option, kind in options.items() if _calls(kind, sys.modules[module])}
    return frozenset(found)


def _public() -> Iterator[Any]:
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        names = getattr(module, "__all__", None) or [
            each for each, value in vars(module).items() if getattr(value, "__module__", "") == name and each[0] != "_"
        ]
        yield from (getattr(module, each) for each in names)
    for entry in sorted(ENTRIES):
        module_name, _, each = entry.rpartition(".")
        yield getattr(importlib.import_module(module_name), each)


def _classes() -> set[type]:
    return {each for each in _public() if isinstance(each, type) and each.__module__.startswith("aiokproto")}


def _functions() -> set[Any]:
    return {each for each in _public() if inspect.isfunction(each)}


def _methods(cls: type) -> Iterator[Any]:
    """The public methods, also of bases that are not public."""
    if cls in BASE_CLASSES or getattr(cls, "_is_protocol", False):
        return
    for name in dir(cls):
        if name.startswith("_") and name not in ("__init__", "__new__", "__call__"):
            continue
        method = inspect.unwrap(getattr(cls, name))
        method = getattr(method, "__func__", method)
        if inspect.isfunction(method) and method.__module__.startswith("aiokproto"):
            yield method


def _of_signature(function: Callable[..., Any]) -> list[str]:
    module = sys.modules[function.__module__]
    return [
        name
        for name, kind in getattr(function, "__annotations__", {}).items()
        if name not in ("return", "self") and _calls(kind, module)
    ]


def _calls(kind: object, module: types.ModuleType, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a value of this type is called, or has methods that are."""
    if isinstance(kind, typing.ForwardRef):
        kind = kind.__forward_arg__
    if isinstance(kind, str):
        # A recursive type names itself.
        names = frozenset[str]() if kind in seen else _names(kind)
        return any(_calls(*_looked_up(name, module), seen | {kind}) for name in names)
    origin = typing.get_origin(kind)
    if kind is collections.abc.Callable or origin is collections.abc.Callable:
        return True
    if origin is typing.Literal:
        return False
    if origin is not None:
        return any(_calls(each, module, seen) for each in (origin, *typing.get_args(kind)))
    if not isinstance(kind, type):
        return False
    return kind in BASE_CLASSES or (getattr(kind, "_is_protocol", False) and kind.__module__.startswith("aiokproto"))


@functools.cache
def _names(text: str) -> frozenset[str]:
    """The names in an annotation, also in strings within it, but not in literals."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(text, mode="eval")]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            continue
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= _names(node.value)
        waiting += ast.iter_child_nodes(node)
    return frozenset(found)


def _looked_up(name: str, module: types.ModuleType) -> tuple[object, types.ModuleType]:
    """Return what a name is, and the module in which the names of its own text are to be looked up."""
    imported = _imports(module)
    if name in imported:
        home, original = imported[name]
        return _looked_up(original, importlib.import_module(home))
    return vars(module).get(name, _aliases(module).get(name)), module


@functools.cache
def _nodes(module: types.ModuleType) -> list[ast.ImportFrom | ast.If]:
    """The imports of a module, and the conditions, of which one is that for type checkers."""
    waiting: list[ast.stmt] = list(ast.parse(inspect.getsource(module)).body)
    found: list[ast.ImportFrom | ast.If] = []
    for node in waiting:
        if isinstance(node, ast.ImportFrom | ast.If):
            found.append(node)
        if isinstance(node, ast.If | ast.Try):
            waiting += node.body
    return found


@functools.cache
def _imports(module: types.ModuleType) -> dict[str, tuple[str, str]]:
    """What a module imports of the package, also for type checkers alone: name → module and name there."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in _nodes(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiokproto")
        for alias in node.names
    }


@functools.cache
def _aliases(module: types.ModuleType) -> dict[str, str]:
    """The types that a module declares for type checkers alone, as text."""
    return {
        each.targets[0].id: ast.unparse(each.value)
        for node in _nodes(module)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for each in node.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    }


_CALLERS = "called within the call itself, which raises what it raises"
_LIBRARY = "made by the library, or from options that have a row"
_DATA = "data, which is read in the call itself"
_CLOCK = "one of the broker's own clocks"
_LOOP = "an event loop, which calls it as asyncio's do"

NOT_OF_THE_APPLICATION = {
    "Broker(clock)": _CLOCK,
    "Cluster(clock)": _CLOCK,
    "ClusterClient(last_used)": _LIBRARY,
    "ClusterClient.run_in_thread(function)": _CALLERS,
    "ClusterClient.send_nowait(on_response)": _LIBRARY,
    "ClusterConfig(address_map)": _LIBRARY,
    "ClusterConfig(dialer)": _LIBRARY,
    "ClusterConfig(sasl)": _LIBRARY,
    "ClusterConfig(server_hostname)": _LIBRARY,
    "ClusterConfig(tls)": _LIBRARY,
    "ClusterSnapshot.with_leader(endpoints)": _LIBRARY,
    "FaultRule(act)": _LIBRARY,
    "Faults(clock)": _CLOCK,
    "Faults.serve(serve)": _LIBRARY,
    "KafkaCollector(clients)": "the library's own clients",
    "LegacyBatch.read_or_slice(make)": _CALLERS,
    "LegacyBatch.records(make)": _CALLERS,
    "LegacyBatch.records_in_pieces(make)": _CALLERS,
    "LegacyBatch.records_within(make)": _CALLERS,
    "LegacyBatch.slices(make)": _CALLERS,
    "Link(now)": _LIBRARY,
    "Network(now)": _LIBRARY,
    "Network.connect(factory)": _LOOP,
    "Network.listen(factory)": _LOOP,
    "Producer.post_batch(batch)": _DATA,
    "Producer.post_many(records)": _DATA,
    "Producer.send_batch(batch)": _DATA,
    "Producer.send_many(records)": _DATA,
    "Progress(admit)": _LIBRARY,
    "Progress(group_metadata)": _LIBRARY,
    "RecordBatch.read_or_slice(make)": _CALLERS,
    "RecordBatch.records(make)": _CALLERS,
    "RecordBatch.slices(make)": _CALLERS,
    "RequestInfo(name_of)": _LIBRARY,
    "RequestInfo(session)": _LIBRARY,
    "RequestInfo(topics)": _LIBRARY,
    "SimulationLoop.call_at(callback)": _LOOP,
    "SimulationLoop.call_later(callback)": _LOOP,
    "SimulationLoop.call_soon(callback)": _LOOP,
    "SimulationLoop.call_soon_threadsafe(callback)": _LOOP,
    "SimulationLoop.create_connection(protocol_factory)": _LOOP,
    "SimulationLoop.create_server(protocol_factory)": _LOOP,
    "SimulationLoop.run_in_executor(func)": _LOOP,
    "SimulationLoop.set_exception_handler(handler)": _LOOP,
    "Threads.run(work)": _LOOP,
    "Transaction(partitioner)": _LIBRARY,
    "Transaction.post_batch(batch)": _DATA,
    "Transaction.post_many(records)": _DATA,
    "Transaction.send_batch(batch)": _DATA,
    "Transaction.send_many(records)": _DATA,
    "Transaction.send_offsets(offsets)": _DATA,
    "VirtualClock.call_at(callback)": _LIBRARY,
    "encode(records)": _DATA,
    "make_assignors(strategies)": _LIBRARY,
}
"""What is called, or has methods that are, and is no code of the application that fails in the middle of the library's
own work: each with the reason."""
