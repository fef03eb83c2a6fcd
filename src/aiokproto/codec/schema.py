"""Declare messages: the class body is the schema.

A message is one class for all its versions. A field's annotation names its wire type, or its :class:`Role`, which has
one wire type. Every field has the default of Kafka's generated classes; :func:`field` adds what differs from "in every
version, never null"::

    class MetadataRequestTopic(Struct):
        topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
        name: TopicName | None = field(nullable="10+", default="")

    class MetadataRequest(Request[MetadataResponse], key=3, versions="0-13", flexible="9+", route=Route.ANY):
        topics: list[MetadataRequestTopic] | None = field(nullable="1+", factory=list)
        allow_auto_topic_creation: bool = field("4+", default=True)

Ranges are written as Kafka writes them: ``"3"``, ``"0-2"``, ``"4+"``, ``"none"``. The annotations stay text until a
codec is compiled from them, and ``__init__`` is made on first use, so importing the whole protocol costs next to
nothing.

The codecs don't trust their input. They reject a message if a count or length is more than the bytes left, if it's
longer than :attr:`~aiokproto.codec.wire.Limits.size`, or if its objects would take more than
:attr:`~aiokproto.codec.wire.Limits.memory` (1 GiB by default). Below that, objects take at most 189 times the message's
bytes (see ``limits``): ``MetadataResponse.decode(data, 12, limits=Limits(memory=64 << 20))``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from types import GenericAlias

from aiokproto.codec.steps import finish
from aiokproto.codec.wire import DEFAULT_LIMITS, FORMATS, Limits
from aiokproto.errors import DecodeError, EncodeError
from aiokproto.texts import counted

# Type checkers recognize it by its name. Importing typing would take longer than the rest of this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

    from typing_extensions import Self, dataclass_transform

    from aiokproto.codec.steps import Steps

    R_co = TypeVar("R_co", bound="Response", covariant=True)
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        return lambda cls: cls

    class Generic:
        """The part of ``typing.Generic`` that :class:`Request` needs."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    R_co = None


int8: TypeAlias = int
int16: TypeAlias = int
int32: TypeAlias = int
int64: TypeAlias = int
uint16: TypeAlias = int
uint32: TypeAlias = int
float64: TypeAlias = float
string: TypeAlias = str
uuid: TypeAlias = bytes
recordset: TypeAlias = "bytes | bytearray | memoryview"

TopicName: TypeAlias = str
TopicId: TypeAlias = bytes
PartitionIndex: TypeAlias = int
GroupId: TypeAlias = str
TransactionalId: TypeAlias = str
CoordinatorKey: TypeAlias = str
ProducerId: TypeAlias = int
BrokerId: TypeAlias = int
Buffer: TypeAlias = "bytes | bytearray | memoryview"


class Versions(tuple[int, int]):
    """An inclusive range of versions, ``(lowest, highest)``; empty when ``highest < lowest``."""

    __slots__ = ()

    def __new__(cls, lowest: int, highest: int) -> Versions:
        return tuple.__new__(cls, (lowest, highest))

    def __getnewargs__(self) -> tuple[int, int]:
        return self.lowest, self.highest

    @property
    def lowest(self) -> int:
        return self[0]

    @property
    def highest(self) -> int:
        return self[1]

    def __repr__(self) -> str:
        return f"Versions(lowest={self.lowest}, highest={self.highest})"

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read Kafka's notation: ``"3"``, ``"0-2"``, ``"4+"``, ``"none"``."""
        return _parse_versions(text)

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self[0] <= version <= self[1]

    def __str__(self) -> str:
        if self.highest < self.lowest:
            return "none"
        if self.highest == OPEN_END:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"

    def covers(self, other: Versions) -> bool:
        """Whether every version of ``other`` is in this range."""
        return other.highest < other.lowest or (self.lowest <= other.lowest and other.highest <= self.highest)


OPEN_END = 0x7FFF


@lru_cache(maxsize=256)
def _parse_versions(text: str) -> Versions:
    if text == "none":
        return Versions(0, -1)
    if text.endswith("+"):
        return Versions(int(text[:-1]), OPEN_END)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


ALL = Versions(0, OPEN_END)
NEVER = Versions(0, -1)


class Route(Enum):
    """Which broker a request goes to.

    A request for several groups, transactional ids or (with LEADERS) partitions is divided among their brokers. A
    request that belongs to a session with a broker, or to one transaction, isn't divided.
    """

    ANY = "any broker"
    EVERY = "every broker"
    LEADER = "leader of the partitions"
    LEADERS = "leaders of the partitions, each for its own"
    CONTROLLER = "controller"
    GROUP = "coordinator of the group"
    TRANSACTION = "coordinator of the transactional id"
    SHARE = "coordinator of the share group's state"
    BROKER = "the broker it is about"
    CONFIGURED = "each broker whose configuration it is about, any for other resources"
    QUORUM = "KRaft quorum, between controllers and brokers"


class Role(Enum):
    """The kind of entity that a field names. The value is the annotation. It's also the ``entityType`` in Kafka's
    definitions, except that these have none for topic ids, partitions and coordinator keys."""

    TOPIC_NAME = "TopicName"
    TOPIC_ID = "TopicId"
    PARTITION_INDEX = "PartitionIndex"
    GROUP_ID = "GroupId"
    TRANSACTIONAL_ID = "TransactionalId"
    COORDINATOR_KEY = "CoordinatorKey"
    """A group id, a transactional id or a share partition, depending on the request's ``key_type``."""
    PRODUCER_ID = "ProducerId"
    BROKER_ID = "BrokerId"


_ROLES = {
    Role.TOPIC_NAME: "string",
    Role.TOPIC_ID: "uuid",
    Role.PARTITION_INDEX: "int32",
    Role.GROUP_ID: "string",
    Role.TRANSACTIONAL_ID: "string",
    Role.COORDINATOR_KEY: "string",
    Role.PRODUCER_ID: "int64",
    Role.BROKER_ID: "int32",
}
_BY_ANNOTATION = {role.value: (kind, role) for role, kind in _ROLES.items()}


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


@dataclass(slots=True)
class Field:
    """The arguments of :func:`field`."""

    versions: str
    nullable: str | None
    tag: int | None
    default: Any
    factory: Callable[[], Any] | None
    ignorable: bool
    flexible: bool
    mentioned: bool
    key: bool
    refused: Any
    secret: bool | Callable[[Any], bool]


def field(
    versions: str = "0+",
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    ignorable: bool = False,
    flexible: bool = True,
    mentioned: bool = False,
    key: bool = False,
    refused: Any = MISSING,
    secret: bool | Callable[[Any], bool] = False,
) -> Any:
    """Declare a field for which type and default are not enough.

    Args:
        versions: The versions that contain the field.
        nullable: The versions in which it can be null; by default all, if the annotation has ``| None``.
        tag: The tag, if it is a tagged field.
        default: The value if none is given, and in versions without the field.
        factory: Creates a new default each time (lists, structs). A field has either this or a default.
        ignorable: Whether a value other than the default is silently left out of versions without the field, instead
            of being an error.
        flexible: False if the field keeps its non-compact form in flexible versions.
        mentioned: Whether the request doesn't act on the topics, partitions or groups in this field: subscriptions, or
            partitions that a session forgets. Messages can be divided by all other entities that they name.
        key: Whether the field identifies an item of its list, if no role does. The items of a response have the same
            keys as the request's items, in the same order.
        refused: The value in the response to a refused request if it isn't the default: -1 for an unknown offset.
        secret: Whether ``repr`` hides the value, because it's a password or allows guessing one. A function decides
            this for each struct.
    """
    return Field(versions, nullable, tag, default, factory, ignorable, flexible, mentioned, key, refused, secret)


@dataclass(slots=True, eq=False)
class FieldSpec:
    """A field as the codecs see it: its declaration (see :func:`field`) with the annotation resolved.

    ``kind`` is the name of a wire type, or "struct". If it's "struct", ``struct`` is the class. ``role`` belongs to the
    value, or to the items of an array. ``owner`` is the class that declares the field.
    """

    name: str
    kind: str
    struct: type[Struct] | None
    role: Role | None = None
    array: bool = False
    versions: Versions = ALL
    nullable: Versions = NEVER
    tag: int | None = None
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    ignorable: bool = False
    flexible: bool = True
    mentioned: bool = False
    key: bool = False
    refused: Any = MISSING
    owner: type[Struct] | None = None

    @property
    def item(self) -> FieldSpec:
        """Return the spec of an array's items: never null, without a default."""
        return FieldSpec(self.name, self.kind, self.struct, versions=self.versions, flexible=self.flexible)

    def default_value(self) -> Any:
        """Return the default. If it's mutable, each call returns a new object."""
        return self.default if self.factory is None else self.factory()


BASIC_TYPES = frozenset({*FORMATS, "string", "bytes", "recordset"})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class StructType(type):
    """Turns annotations into slots. All other work is deferred to the first use, so imports stay cheap."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any) -> StructType:
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        declared: dict[str, Field] = {}
        for attribute, annotation in annotations.items():
            if not annotation.startswith("ClassVar"):
                value = namespace.pop(attribute, MISSING)
                declared[attribute] = value if isinstance(value, Field) else field(default=value)
        namespace["__slots__"] = tuple(declared)
        namespace["_declared"] = declared
        namespace["_specs"] = None
        return super().__new__(mcls, name, bases, namespace, **keywords)


class Struct(metaclass=StructType):
    """A group of fields. Compares by value; attributes are the fields, and ``unknown_tags``.

    ``unknown_tags`` contains the decoded tagged fields that this schema doesn't know, by tag, or is None. They are
    written back when the struct is encoded.
    """

    unknown_tags: dict[int, bytes] | None = None

    _declared: ClassVar[dict[str, Field]]
    _specs: ClassVar[tuple[FieldSpec, ...] | None]
    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            from aiokproto.codec.compiler import compile_init

            cls = type(self)
            cls.__init__ = compile_init(cls)
            cls.__init__(self, **values)

    @classmethod
    def fields(cls) -> tuple[FieldSpec, ...]:
        """The fields in wire order."""
        if cls._specs is None:
            cls._specs = tuple(_resolve(cls, name, declared) for name, declared in cls._declared.items())
        return cls._specs

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = (*type(self)._declared, "unknown_tags")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def _shown(self, name: str, declared: Field) -> str:
        value, secret = getattr(self, name), declared.secret
        hidden = secret(self) if callable(secret) else secret
        return "<hidden>" if hidden and value else repr(value)

    def __repr__(self) -> str:
        shown = [f"{name}={self._shown(name, declared)}" for name, declared in type(self)._declared.items()]
        if self.unknown_tags:
            shown.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _resolve(cls: type[Struct], name: str, declared: Field) -> FieldSpec:
    """Resolve an annotation: ``T`` or ``list[T]``, optionally ``| None``."""
    text: str = cls.__annotations__[name]
    base = text.removesuffix(" | None")
    optional = base != text
    array = base.startswith("list[")
    if array:
        base = base[5:-1]
    kind, role = _BY_ANNOTATION.get(base, (base, None))
    struct = None if kind in BASIC_TYPES else getattr(sys.modules[cls.__module__], base)
    if declared.default is MISSING and declared.factory is None:
        raise TypeError(f"{cls.__name__}.{name} has no default")
    nullable = Versions.parse(declared.nullable) if declared.nullable else (ALL if optional else NEVER)
    return FieldSpec(
        name=name,
        kind="struct" if struct else kind,
        struct=struct,
        role=role,
        array=array,
        versions=Versions.parse(declared.versions),
        nullable=nullable,
        tag=declared.tag,
        default=declared.default,
        factory=declared.factory,
        ignorable=declared.ignorable,
        flexible=declared.flexible,
        mentioned=declared.mentioned,
        key=declared.key,
        refused=declared.refused,
        owner=cls,
    )


def _has_records(spec: FieldSpec, version: int) -> bool:
    if version not in spec.versions:
        return False
    inner = spec.struct.fields() if spec.struct is not None else ()
    return spec.kind == "recordset" or any(_has_records(field, version) for field in inner)


class _Codecs(dict[int, "Any"]):
    """Version → compiled function, compiled on first use; a decoder comes with its maximum memory per byte."""

    def __init__(self, message: type[Message], *, decode: bool) -> None:
        super().__init__()
        self.message = message
        self.decode = decode

    def __missing__(self, version: int) -> Any:
        from aiokproto.codec.compiler import compile_decoder, compile_encoder

        message = self.message
        self.check(version)
        found: Any = compile_decoder(message, version) if self.decode else compile_encoder(message, version)
        self[version] = found
        return found

    def check(self, version: int) -> None:
        """Raise an error if the version doesn't exist."""
        message = self.message
        if version not in message.versions:
            error = DecodeError if self.decode else EncodeError
            raise error(f"{message.__name__} has versions {message.versions}, not {version}")


class Message(Struct):
    """A struct with its own versions, which can be encoded on its own."""

    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]
    unstable: ClassVar[Versions]
    _encoders: ClassVar[_Codecs]
    _decoders: ClassVar[_Codecs]

    def __init_subclass__(
        cls, versions: str = "none", flexible: str = "none", unstable: str = "none", **rest: Any
    ) -> None:
        super().__init_subclass__(**rest)
        cls.versions = Versions.parse(versions)
        cls.flexible = Versions.parse(flexible)
        cls.unstable = Versions.parse(unstable)
        cls._encoders = _Codecs(cls, decode=False)
        cls._decoders = _Codecs(cls, decode=True)

    def encode(self, version: int) -> bytes:
        """Return the body in a version.

        Raises:
            EncodeError: The version doesn't exist, or can't carry a field's value. Names the field.
        """
        out = bytearray()
        self.encode_into(out, version)
        return bytes(out)

    def encode_into(self, out: bytearray, version: int) -> None:
        """Append the body to ``out``. If that fails, ``out`` is unchanged. Raises the same errors as :meth:`encode`."""
        encoder = self._encoders[version]
        start = len(out)
        try:
            encoder(self, out)
        except Exception as error:
            del out[start:]
            from aiokproto.codec.explain import explain_encode

            raise explain_encode(self, version, error) from error

    def encoding_into(self, out: bytearray, version: int) -> Steps[None]:
        """Like :meth:`encode_into`, but in steps. The message must not change until the last step."""
        from aiokproto.codec.compiler import compile_careful_encoder

        self._encoders.check(version)
        start = len(out)
        try:
            yield from compile_careful_encoder(type(self), version)(self, out)
        except Exception as error:
            del out[start:]
            from aiokproto.codec.explain import explain_encode

            raise explain_encode(self, version, error) from error

    @classmethod
    def decode(cls, data: Buffer, version: int, *, limits: Limits = DEFAULT_LIMITS, exact: bool = True) -> Self:
        """Read a whole body.

        ``recordset`` fields become views of ``data``, not copies: keep it unchanged while they are used.

        Args:
            data: The body, without header.
            version: The version it is in.
            limits: The size and memory that decoding may take.
            exact: Whether bytes after the body are an error.

        Raises:
            DecodeError: Bytes are missing, wrong, left over, or over a limit. Names the field and position.
        """
        if not cls.in_place(version) and len(data) <= limits.size:
            # Slicing bytes is cheaper than slicing a view, and copying a small message costs next to nothing.
            data = bytes(data)
        message, end = cls.decode_from(data, 0, version, limits=limits)
        if exact and end != len(data):
            raise DecodeError(f"{cls.__name__} v{version}: {counted(len(data) - end, 'byte')} left over after {end}")
        return message

    @classmethod
    @cache
    def in_place(cls, version: int) -> bool:
        """Whether the version contains record sets, which stay views of the input."""
        return any(_has_records(spec, version) for spec in cls.fields())

    @classmethod
    def decode_from(cls, data: Buffer, pos: int, version: int, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Self, int]:
        """Read a body that starts at ``pos``. Return it and the position after it. Raises the same errors as
        :meth:`decode`."""
        decoder, worst = cls._decoders[version]
        size = len(data) - pos
        if size > limits.size or size * worst > limits.memory:
            return finish(cls.decoding_from(data, pos, version, limits=limits))
        try:
            result: tuple[Self, int] = decoder(data, pos)
        except Exception as error:
            from aiokproto.codec.explain import explain_decode

            raise explain_decode(cls, data, pos, version, limits, error) from error
        return result

    @classmethod
    def decoding_from(
        cls, data: Buffer, pos: int, version: int, *, limits: Limits = DEFAULT_LIMITS
    ) -> Steps[tuple[Self, int]]:
        """Like :meth:`decode_from`, but in steps, and counting memory."""
        from aiokproto.codec.compiler import compile_careful_decoder

        cls._decoders.check(version)
        if len(data) - pos > limits.size:
            raise DecodeError(f"{cls.__name__} v{version}: {len(data) - pos} bytes, over the limit of {limits.size}")
        try:
            result: tuple[Self, int] = yield from compile_careful_decoder(cls, version)(data, pos, limits.memory)
        except Exception as error:
            from aiokproto.codec.explain import explaining_decode

            raise (yield from explaining_decode(cls, data, pos, version, limits, error)) from error
        return result

    @classmethod
    def source(cls, version: int) -> str:
        """Return the generated Python code of a version's encoder and decoder, to read."""
        from aiokproto.codec.compiler import source

        return source(cls, version)


class Payload(Message):
    """A message inside something else: in a bytes field, a record's key or value, or a control record."""


class Response(Message):
    """A broker's response.

    Attributes:
        api_key: The ApiKey.
        header_tags: The versions whose header has tagged fields; by default the flexible versions.
        client_throttles: The versions whose ``throttle_time_ms`` the client has to wait out; by default all. In older
            versions the broker itself waited before it responded (KIP-219).
    """

    api_key: ClassVar[int]
    header_tags: ClassVar[Versions]
    client_throttles: ClassVar[Versions]

    def __init_subclass__(
        cls, key: int = -1, header_tags: str | None = None, client_throttles: str = "0+", **rest: Any
    ) -> None:
        super().__init_subclass__(**rest)
        cls.api_key = key
        cls.header_tags = cls.flexible if header_tags is None else Versions.parse(header_tags)
        cls.client_throttles = Versions.parse(client_throttles)

    @classmethod
    def header_version(cls, version: int) -> int:
        """Return the version of the response header."""
        return int(version in cls.header_tags)


class Request(Message, Generic[R_co]):
    """A request to a broker. The response to a ``Request[R]`` is an ``R`` of the same version.

    Attributes:
        api_key: The ApiKey.
        response: The class of the response.
        route: The broker that the request goes to.
        header_client_id: The versions whose header has a client id; by default all.
    """

    api_key: ClassVar[int]
    response: ClassVar[type[Response]]
    route: ClassVar[Route]
    header_client_id: ClassVar[Versions]

    def __init_subclass__(
        cls, key: int = -1, route: Route | None = None, header_client_id: str = "0+", **rest: Any
    ) -> None:
        super().__init_subclass__(**rest)
        if not isinstance(route, Route):
            raise TypeError(f"{cls.__name__} has no route: declare the broker that it goes to, such as route=Route.ANY")
        cls.api_key = key
        cls.route = route
        cls.header_client_id = Versions.parse(header_client_id)
        cls.response = cls.__orig_bases__[0].__args__[0]  # type: ignore[attr-defined]

    @classmethod
    def header_version(cls, version: int) -> int:
        """Return the version of the request header."""
        return 2 if version in cls.flexible else int(version in cls.header_client_id)
