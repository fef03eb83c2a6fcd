"""The options of payload formats: ``value.format`` and what belongs to it, and the same for keys. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.spark.credentials import Hidden
from aiokproto.spark.options_values import INT32_MAX, Reader, boolean, integer, one_of

COLUMNS = ("key", "value")
CORRUPT = "_corrupt_record"
"""Default of ``value.columnNameOfCorruptRecord``, as in Spark."""

_URL = "schema.registry.url"


def _version(text: str) -> str:
    return text.strip().lower() if text.strip().lower() == "latest" else str(integer(1, INT32_MAX)(text))


_OF_A_COLUMN: Mapping[str, Reader] = {
    "format": one_of("raw", "json", "avro"),
    "schema": str.strip,
    "mode": one_of("permissive", "failfast", "dropmalformed"),
    "columnNameOfCorruptRecord": str.strip,
    "subject": str.strip,
    "schema.version": _version,
    "framing": one_of("confluent", "none", "single-object"),
}

_REGISTRY: Mapping[str, Reader] = {
    # It may have a password, with which it is refused once its references are resolved.
    _URL: Hidden,
    "schema.registry.basic.auth.user.info": Hidden,
    "schema.registry.bearer.auth.token": Hidden,
    "schema.registry.ssl.cafile": str,
    "schema.registry.ssl.certfile": str,
    "schema.registry.ssl.keyfile": str,
    "schema.registry.request.timeout.ms": integer(1, INT32_MAX),
    "schema.registry.auto.register": boolean,
}

PAYLOAD_OPTIONS: Mapping[str, Reader] = {
    **{f"{column}.{name}": reader for column in COLUMNS for name, reader in _OF_A_COLUMN.items()},
    **_REGISTRY,
}
"""All of them, with the parsers of their values."""


@dataclass(frozen=True)
class RegistryOptions:
    """How a schema registry is reached. Texts may be references: see :mod:`aiokproto.spark.credentials`.

    Attributes:
        url: One or more URLs, separated by commas.
        user_info: ``user:password`` for basic authentication.
        token: A bearer token.
        cafile: A PEM file with the certificate authorities to trust, in place of the system's.
        certfile: A PEM file with a client certificate.
        keyfile: A PEM file with its key.
        timeout: Longest time for a request (s). Default 30.
    """

    url: str
    user_info: str | None = None
    token: str | None = None
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    timeout: float = 30.0


@dataclass(frozen=True)
class Payload:
    """The format of a column.

    Attributes:
        column: ``"key"`` or ``"value"``.
        format: ``"json"`` or ``"avro"``.
        schema: The schema as the option gives it, or that of the registry once the driver has found it.
        mode: What becomes of malformed rows: ``"permissive"`` (null), ``"failfast"``, ``"dropmalformed"``.
        corrupt: The name of the field for the text of malformed rows, if the schema has it (JSON).
        framing: What is before a value in Avro: ``"confluent"`` (a magic byte and the id of the schema), ``"none"``, or
            ``"single-object"``.
        registry: The registry; None without one.
        subject: The subject whose schema is the reader's, or with which rows are written.
        version: The version of the subject's schema: ``"latest"``, or a number.
        register: Whether the sink registers a schema that its subject does not have.
    """

    column: str
    format: str
    schema: str | None
    mode: str
    corrupt: str = CORRUPT
    framing: str = "none"
    registry: RegistryOptions | None = None
    subject: str | None = None
    version: str = "latest"
    register: bool = False

    def option(self, name: str) -> str:
        """Return the name of one of the column's options."""
        return f"{self.column}.{name}"


def parse_payloads(given: Mapping[str, Any], topics: Sequence[str] = ()) -> tuple[Payload, ...]:
    """Return the formats of columns that are not raw.

    Args:
        given: Options by name, with parsed values.
        topics: The topics, if they are known by name; of a single one the subjects are ``<topic>-value`` and
            ``<topic>-key``.

    Raises:
        ConfigurationError: An option is missing, or has no effect.
    """
    payloads = [one for column in COLUMNS if (one := _parse(column, given, topics)) is not None]
    if not any(one.registry for one in payloads):
        _refuse(given, _REGISTRY, "no column has format avro with framing confluent")
    return tuple(payloads)


def _parse(column: str, given: Mapping[str, Any], topics: Sequence[str]) -> Payload | None:
    own = {name: given[f"{column}.{name}"] for name in _OF_A_COLUMN if f"{column}.{name}" in given}
    kind = own.get("format", "raw")

    def refuse(names: Sequence[str], why: str) -> None:
        _refuse(given, [f"{column}.{name}" for name in names], why)

    if kind == "raw":
        refuse(list(_OF_A_COLUMN)[1:], f"{column}.format is raw")
        return None
    schema = own.get("schema") or None
    if kind == "json":
        refuse(("subject", "schema.version", "framing"), f"{column}.format is json")
        return Payload(
            column, kind, schema, own.get("mode", "permissive"), own.get("columnNameOfCorruptRecord", CORRUPT)
        )
    refuse(("columnNameOfCorruptRecord",), f"{column}.format is avro")
    framing = own.get("framing", "confluent" if _URL in given else "none")
    mode = own.get("mode", "failfast")
    if framing != "confluent":
        refuse(("subject", "schema.version"), f"{column}.framing is {framing}")
        if schema is None:
            raise ConfigurationError(f"{column}.schema is required: records of framing {framing!r} do not name theirs")
        return Payload(column, kind, schema, mode, framing=framing)
    if schema is not None and "schema.version" in own:
        raise ConfigurationError(f"{column}.schema.version has no effect: {column}.schema is given")
    subject = own.get("subject") or (f"{topics[0]}-{column}" if len(topics) == 1 else None)
    if schema is None and subject is None:
        raise ConfigurationError(f"{column}.subject or {column}.schema is required: the topic is not a single one")
    return Payload(
        column,
        kind,
        schema,
        mode,
        framing=framing,
        registry=_registry(given),
        subject=subject,
        version=own.get("schema.version", "latest"),
        register=given.get("schema.registry.auto.register", False),
    )


def _registry(given: Mapping[str, Any]) -> RegistryOptions:
    def of(name: str) -> Any:
        return given.get(f"schema.registry.{name}")

    if not of("url"):
        raise ConfigurationError(f"{_URL} is required: records of framing 'confluent' have the id of a schema there")
    if of("basic.auth.user.info") and of("bearer.auth.token"):
        raise ConfigurationError(
            "schema.registry.basic.auth.user.info and schema.registry.bearer.auth.token are given: expected one of them"
        )
    if of("ssl.keyfile") and not of("ssl.certfile"):
        raise ConfigurationError("schema.registry.ssl.keyfile is given without schema.registry.ssl.certfile")
    return RegistryOptions(
        of("url"),
        of("basic.auth.user.info"),
        of("bearer.auth.token"),
        of("ssl.cafile"),
        of("ssl.certfile"),
        of("ssl.keyfile"),
        (of("request.timeout.ms") or 30_000) / 1000,
    )


def _refuse(given: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any], why: str) -> None:
    if found := next((name for name in names if name in given), None):
        raise ConfigurationError(f"{found} has no effect: {why}")
