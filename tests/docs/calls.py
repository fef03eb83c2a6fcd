"""Calls of our classes in code that can't be run: the names exist, and so do the arguments.

The types of names come from imports, constructors, annotations and ``with``. A name that a fragment doesn't define has
the type that it has on every page: ``producer`` is a Producer.
"""

from __future__ import annotations

import ast
import builtins
import enum
import importlib
import inspect
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from aiokproto import Broker, Client, Cluster, Consumer, Producer, Record, ShareConsumer, TopicPartition
from aiokproto.codec.schema import Struct
from aiokproto.config import ConnectionOptions
from aiokproto.consumer import FetchedBatch
from aiokproto.producer import Transaction


class Instance(NamedTuple):
    """A value, known by its class."""

    cls: type


class Method(NamedTuple):
    """A method of a value, compiled or not; its first parameter is the value."""

    function: Any


USUAL: dict[str, object] = {
    "broker": Instance(Broker),
    "batch": Instance(FetchedBatch),
    "client": Instance(Client),
    "cluster": Instance(Cluster),
    "consumer": Instance(Consumer),
    "partition": Instance(TopicPartition),
    "producer": Instance(Producer),
    "record": Instance(Record),
    "share_consumer": Instance(ShareConsumer),
    "txn": Instance(Transaction),
}
"""What names are that a fragment uses and doesn't define."""


def problems(code: str, names: dict[str, object] | None = None) -> list[str]:
    """Return what a piece of code names of this package that doesn't exist.

    Args:
        code: The fragment.
        names: What is known of names before it. Names that it defines are added.
    """
    names = {} if names is None else names
    checker = _Checker(names)
    checker.visit(ast.parse(code))
    return checker.problems


class _Checker(ast.NodeVisitor):
    def __init__(self, names: dict[str, object]) -> None:
        self.names = names
        self.problems: list[str] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.startswith("aiokproto"):
                module = importlib.import_module(alias.name)
                self.names[alias.asname or "aiokproto"] = (
                    module if alias.asname else importlib.import_module("aiokproto")
                )
            else:
                self.names[alias.asname or alias.name.split(".")[0]] = None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        ours = (node.module or "").startswith("aiokproto")
        module = importlib.import_module(node.module or "") if ours else None
        for alias in node.names:
            found = None
            if ours and not (found := getattr(module, alias.name, None)):
                try:
                    found = importlib.import_module(f"{node.module}.{alias.name}")
                except ImportError:
                    self.problems.append(f"{node.module} has no {alias.name}")
            self.names[alias.asname or alias.name] = found

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._bind(target, self._type(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        self._bind(node.target, self._annotated(node.annotation))

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        self._with(node)

    def visit_With(self, node: ast.With) -> None:
        self._with(node)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, self._type(item.context_expr))
        for statement in node.body:
            self.visit(statement)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.visit(node.iter)
        source = self._type(node.iter)
        record = Instance(Record) if isinstance(source, Instance) and source.cls is Consumer else None
        self._bind(node.target, record)
        for statement in node.body:
            self.visit(statement)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._bind(node.target, None)
        for statement in node.body:
            self.visit(statement)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.names[node.name] = None
        outer = dict(self.names)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            self.names[argument.arg] = self._annotated(argument.annotation)
        for statement in node.body:
            self.visit(statement)
        self.names.clear()
        self.names.update(outer)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        owner = self._type(node.value)
        if owner is not None and not _has(owner, node.attr):
            self.problems.append(f"line {node.lineno}: {_name(owner)} has no {node.attr}")

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = self._type(node.func)
        if (isinstance(called, Method) or callable(called)) and _ours(called):
            self.problems.extend(f"line {node.lineno}: {text}" for text in _refused(called, node))

    def _bind(self, target: ast.expr, found: object) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = found
        for child in ast.walk(target):
            if isinstance(child, ast.Name) and child is not target:
                self.names[child.id] = None

    def _annotated(self, annotation: ast.expr | None) -> object:
        found = self._type(annotation) if annotation is not None else None
        return Instance(found) if isinstance(found, type) else None

    def _type(self, node: ast.expr) -> object:
        match node:
            case ast.Name(id=name):
                if name in self.names:
                    return self.names[name]
                return None if hasattr(builtins, name) else USUAL.get(name)
            case ast.Await(value=value):
                return self._type(value)
            case ast.Subscript(value=value):
                found = self._type(value)
                return found if isinstance(found, type) else None
            case ast.Attribute(value=value, attr=attribute):
                owner = self._type(value)
                return None if owner is None else _member(owner, attribute)
            case ast.Call(func=function):
                return _result(self._type(function))
            case _:
                return None


def _ours(found: object) -> bool:
    found = found.function if isinstance(found, Method) else found
    return str(getattr(found, "__module__", "")).startswith("aiokproto")


def _name(owner: object) -> str:
    return owner.cls.__name__ if isinstance(owner, Instance) else str(getattr(owner, "__name__", owner))


def _has(owner: object, attribute: str) -> bool:
    if isinstance(owner, Instance):
        if not _ours(owner.cls) or hasattr(owner.cls, attribute) or issubclass(owner.cls, enum.Enum):
            return True
        annotated = {name for cls in owner.cls.__mro__ for name in getattr(cls, "__annotations__", {})}
        return attribute in annotated or attribute in _assigned(owner.cls)
    if not (inspect.ismodule(owner) or inspect.isclass(owner)) or not _ours_module(owner):
        return True
    return hasattr(owner, attribute)


def _ours_module(owner: object) -> bool:
    return (owner.__name__ if inspect.ismodule(owner) else str(getattr(owner, "__module__", ""))).startswith(
        "aiokproto"
    )


def _assigned(cls: type) -> set[str]:
    """Return the attributes that the methods of a class and its bases assign to ``self``."""
    found = set[str]()
    for base in cls.__mro__:
        if not base.__module__.startswith("aiokproto"):
            continue
        found.update(getattr(base, "__slots__", ()))
        try:
            tree = ast.parse(inspect.getsource(inspect.getmodule(base)))  # type: ignore[arg-type]
        except (OSError, TypeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return found


def _member(owner: object, attribute: str) -> object:
    cls = owner.cls if isinstance(owner, Instance) else owner
    found = inspect.getattr_static(cls, attribute, None)
    if isinstance(found, property):
        return _of_annotation(found.fget, "return")
    if isinstance(found, staticmethod | classmethod):
        return getattr(cls, attribute)
    if isinstance(owner, Instance) and callable(found) and not inspect.isclass(found):
        return Method(found)
    return getattr(cls, attribute, None)


def _of_annotation(function: Any, name: str) -> object:
    try:
        found = typing.get_type_hints(function).get(name)
    except (NameError, TypeError, AttributeError):
        return None
    found = typing.get_origin(found) or found
    return Instance(found) if inspect.isclass(found) and _ours(found) else None


def _result(called: object) -> object:
    if isinstance(called, type):
        return Instance(called)
    if isinstance(called, Method):
        return _of_annotation(called.function, "return")
    return _of_annotation(called, "return") if inspect.isfunction(called) else None


def _refused(called: Any, node: ast.Call) -> Iterator[str]:
    function = called.function if isinstance(called, Method) else called
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    keywords = [keyword.arg for keyword in node.keywords if keyword.arg is not None]
    splat = len(keywords) < len(node.keywords) or any(isinstance(arg, ast.Starred) for arg in node.args)
    positional = [None] * (sum(not isinstance(arg, ast.Starred) for arg in node.args) + isinstance(called, Method))
    bind = signature.bind_partial if splat else signature.bind
    try:
        bind(*positional, **dict.fromkeys(keywords))
    except TypeError as error:
        yield f"{ast.unparse(node.func)}: {error}"
    kinds = signature.parameters.values()
    if inspect.isclass(called) and any(parameter.kind is parameter.VAR_KEYWORD for parameter in kinds):
        further = (
            {spec.name for spec in called.fields()} if issubclass(called, Struct) else ConnectionOptions.__annotations__
        )
        for keyword in keywords:
            if keyword not in signature.parameters and keyword not in further:
                yield f"{called.__name__} has no option {keyword}"
