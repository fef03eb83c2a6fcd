"""The options of payload formats: ``value.format`` and the options that go with it, and the same for keys. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.spark.credentials import Hidden
from aiokproto.spark.option_table import INT32_MAX, Option, boolean, integer, one_of

COLUMNS = ("key", "value")
CORRUPT = "_corrupt_record"
"""Default of ``value.columnNameOfCorruptRecord``, as in Spark."""

_URL = "schema.registry.url"


def _version(text: str) -> str:
    return text.strip().lower() if text.strip().lower() == "latest" else str(integer(1, INT32_MAX)(text))


_COLUMN_OPTIONS: Mapping[str, Option] = {
    "format": Option(
        one_of("raw", "json", "avro"), "``raw``, ``json``, or ``avro``, which needs ``aiokproto[avro]``.", "raw"
    ),
    "schema": Option(
        str.strip,
        "JSON: the fields, as DDL or as the JSON of a ``StructType``; required. Avro: the reader's schema; by default "
        "the subject's.",
    ),
    "mode": Option(
        one_of("permissive", "failfast", "dropmalformed"),
        "What becomes of a malformed record: ``permissive`` reads null, ``failfast`` fails with ``PayloadError``, "
        "which names topic, partition and offset, and ``dropmalformed`` leaves the record out. By default "
        "``permissive`` for JSON, ``failfast`` for Avro.",
    ),
    "columnNameOfCorruptRecord": Option(
        str.strip, "JSON: this field, if the schema has it as STRING, is the text of a malformed record.", CORRUPT
    ),
    "subject": Option(
        str.strip,
        "Avro: the subject in the registry. By default ``<topic>-value`` or ``<topic>-key``; required if there are "
        "several topics.",
    ),
    "schema.version": Option(_version, "Avro: the version of the subject's schema.", "latest"),
    "framing": Option(
        one_of("confluent", "none", "single-object"),
        "Avro: what is before a value. ``confluent``: a byte 0 and the id of the schema; ``single-object``: C3 01 and "
        "a fingerprint, which must be the one of the schema. By default ``confluent`` with a registry, else ``none``.",
    ),
}
"""The options of one column, without its name."""

_REGISTRY: Mapping[str, Option] = {
    # It's hidden: a URL may contain a password. Such a URL is refused once its references are resolved.
    _URL: Option(Hidden, "The URLs of the schema registry, one or more, separated by commas."),
    "schema.registry.basic.auth.user.info": Option(Hidden, "``user:password``, for basic authentication."),
    "schema.registry.bearer.auth.token": Option(Hidden, "A bearer token."),
    "schema.registry.ssl.cafile": Option(
        str, "A PEM file with the certificate authorities to trust. By default the system's are trusted."
    ),
    "schema.registry.ssl.certfile": Option(str, "A PEM file with a client certificate."),
    "schema.registry.ssl.keyfile": Option(str, "A PEM file with the certificate's key."),
    "schema.registry.request.timeout.ms": Option(
        integer(1, INT32_MAX), "The longest time (ms) of each of four attempts.", "30000"
    ),
    "schema.registry.auto.register": Option(
        boolean, "Writing: whether ``value.schema`` is registered if the subject doesn't have it.", "false"
    ),
}

PAYLOAD_OPTIONS: Mapping[str, Option] = {
    **{f"{column}.{name}": option for column in COLUMNS for name, option in _COLUMN_OPTIONS.items()},
    **_REGISTRY,
}
"""The options of all columns, and of the schema registry."""


@dataclass(frozen=True)
class RegistryOptions:
    """The options of a schema registry. Texts may be references: see :mod:`aiokproto.spark.credentials`.

    Attributes:
        url: One or more URLs, separated by commas.
        user_info: ``user:password`` for basic authentication.
        token: A bearer token.
        cafile: A PEM file with the certificate authorities to trust instead of the system's.
        certfile: A PEM file with a client certificate.
        keyfile: A PEM file with the certificate's key.
        timeout: Maximum time for a request (s). Default 30.
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
        schema: The schema from the option, or from the registry once the driver has requested it.
        mode: What becomes of malformed rows: ``"permissive"`` (null), ``"failfast"``, ``"dropmalformed"``.
        corrupt: The name of the field for the text of malformed rows, if the schema has it (JSON).
        framing: The bytes before a value in Avro: ``"confluent"`` (a magic byte and the id of the schema), ``"none"``,
            or ``"single-object"``.
        registry: The registry, if any.
        subject: The subject of the schema to read with, or to write with.
        version: The version of the subject's schema: ``"latest"``, or a number.
        register: Whether the sink registers a schema that its subject doesn't have.
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
    """Return the formats of columns that aren't raw.

    Args:
        given: Options by name, with parsed values.
        topics: The topics, if they're known by name. With exactly one topic the default subjects are ``<topic>-value``
            and ``<topic>-key``.

    Raises:
        ConfigurationError: An option is missing, or has no effect.
    """
    payloads = [payload for column in COLUMNS if (payload := _parse(column, given, topics)) is not None]
    if not any(payload.registry for payload in payloads):
        _refuse(given, _REGISTRY, "no column has format avro with framing confluent")
    return tuple(payloads)


def _parse(column: str, given: Mapping[str, Any], topics: Sequence[str]) -> Payload | None:
    own = {name: given[f"{column}.{name}"] for name in _COLUMN_OPTIONS if f"{column}.{name}" in given}
    kind = own.get("format", "raw")

    def refuse(names: Sequence[str], why: str) -> None:
        _refuse(given, [f"{column}.{name}" for name in names], why)

    if kind == "raw":
        refuse(list(_COLUMN_OPTIONS)[1:], f"{column}.format is raw")
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
