"""A client for schema registries with Confluent's HTTP API.

A process caches schemas by id or version, which never change. The driver alone requests the latest version of
a subject, each time. A schema that isn't found isn't cached; it may be registered later.

Ids come from records, and the server may not be a registry, so both ids and responses are checked before anything is
cached.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.runtime.timeouts import timeout
from aiokproto.security.http_request import HttpError, HttpResponse, Url, parse_url, request
from aiokproto.security.shown import shown
from aiokproto.security.tls.defaults import default_context
from aiokproto.spark.credentials import fingerprint, refers, resolve
from aiokproto.spark.payloads.options import RegistryOptions
from aiokproto.spark.permissions import check_url, steps_up

ATTEMPTS = 4
"""Number of attempts at each URL, before a request fails."""
BACKOFF = 0.2
"""Wait before the second attempt (s). It doubles with each attempt."""
MAX_REFERENCES = 200
"""Maximum number of schemas that a schema may refer to, directly or not."""
MAX_CACHED = 1000
"""Maximum number of schemas that a process caches. The oldest are dropped."""

_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryError(KafkaError):
    """A schema registry doesn't respond, rejects the client, or doesn't have a schema."""


class UnknownSchemaError(RegistryError):
    """The registry has no such schema, subject or version, or it isn't an Avro schema."""


@dataclass(frozen=True)
class AvroSchema:
    """A schema, and the schemas that it refers to by name.

    Attributes:
        schema: The schema, as JSON.
        references: The other schemas, each after the ones that it refers to itself.
        id: The id in the registry; None if the schema isn't from there.
    """

    schema: str
    references: tuple[str, ...] = ()
    id: int | None = None

    def to_text(self) -> str:
        """Return it as one text: just the schema if it has neither references nor an id."""
        if not self.references and self.id is None:
            return self.schema
        return json.dumps({"aiokproto": 1, "schema": self.schema, "references": self.references, "id": self.id})

    @classmethod
    def from_text(cls, text: str) -> AvroSchema:
        """Parse the result of :meth:`to_text`, or the value of an option."""
        try:
            found = json.loads(text)
        except ValueError:
            # A bare name of a type is a schema, too: string is the same as {"type": "string"}.
            return cls(json.dumps(text))
        except RecursionError:
            return cls(text)
        if isinstance(found, dict) and found.keys() == {"aiokproto", "schema", "references", "id"}:
            return cls(found["schema"], tuple(found["references"]), found["id"])
        return cls(text)


class _Version(NamedTuple):
    """A version of a subject."""

    subject: str
    number: int


class _Found(NamedTuple):
    """The registry's response for an id, or for a version of a subject."""

    kind: str
    schema: str
    references: Sequence[_Version]
    id: int | None


_cache: dict[tuple[str, str], _Found] = {}
"""Responses that never change, by registry and path."""


class Registry:
    """A schema registry."""

    def __init__(self, options: RegistryOptions) -> None:
        """Raises :class:`ConfigurationError` if an option is invalid, or refers to something that doesn't exist."""
        values = {name: _resolved(name, value) for name, value in vars(options).items()}
        self._key = fingerprint(values)
        self._timeout = options.timeout
        self._headers = {"Accept": f"{_TYPE}, application/json"}
        secret = _authorization(values)
        if secret:
            self._headers["Authorization"] = secret
        # Hide these texts, which a registry may repeat in its errors.
        secrets = (secret.partition(" ")[2], values["user_info"], values["token"])
        self._hidden = [text for text in secrets if text]
        if values["user_info"]:
            self._hidden.append(values["user_info"].partition(":")[2])
        texts = [text.strip() for text in values["url"].split(",") if text.strip()]
        self._urls = [_url(text, bool(secret)) for text in texts]
        for text in texts:
            check_url("schema.registry.url", text)
        if not self._urls:
            raise ConfigurationError("schema.registry.url is empty")
        self._ssl = _context(values) if any(url.tls for url in self._urls) else None

    async def by_id(self, schema_id: int) -> AvroSchema:
        """Return the schema with an id.

        Raises:
            UnknownSchemaError: There is none, or it isn't an Avro schema.
            RegistryError: The registry doesn't respond, or rejects the client, or its response is malformed.
        """
        found = await self._cached(f"/schemas/ids/{schema_id}")
        return await self._with_references(found, schema_id)

    async def of_subject(self, subject: str, version: str) -> AvroSchema:
        """Return a version of a subject's schema. Raises the same errors as :meth:`by_id`."""
        path = _path(subject, version)
        found = await (self._schema(path) if version == "latest" else self._cached(path))
        if found.id is None:
            raise RegistryError(f"GET {self._shown}{path}: the response has no id")
        return await self._with_references(found, found.id)

    async def id_of(self, subject: str, schema: AvroSchema, *, register: bool) -> int:
        """Return the id of a schema in a subject; ``register`` adds it. Raises the same errors as :meth:`by_id`."""
        path = _subject(subject) + ("/versions" if register else "")
        found = _id(await self._request("POST", path, {"schema": schema.schema}))
        if found is None:
            raise RegistryError(f"POST {self._shown}{path}: the response has no id")
        return found

    @property
    def _shown(self) -> str:
        return self._urls[0].shown.rstrip("/")

    async def _with_references(self, found: _Found, schema_id: int) -> AvroSchema:
        if found.kind != "AVRO":
            kind = shown(found.kind)
            raise UnknownSchemaError(f"schema {schema_id} of the registry {self._shown} is {kind}, not Avro")
        references: dict[_Version, str] = {}
        await self._add_references(found.references, references, ())
        return AvroSchema(found.schema, tuple(references.values()), schema_id)

    async def _add_references(
        self, versions: Sequence[_Version], known: dict[_Version, str], within: tuple[_Version, ...]
    ) -> None:
        for version in versions:
            if version in known:
                continue
            if version in within:
                which = f"version {version.number} of subject {shown(repr(version.subject))} of {self._shown}"
                raise RegistryError(f"{which} refers to itself")
            if len(known) >= MAX_REFERENCES or len(within) >= MAX_REFERENCES:
                raise RegistryError(f"a schema of {self._shown} refers to more than {MAX_REFERENCES} others")
            found = await self._cached(_path(version.subject, version.number))
            # Schemas are parsed in order, so add the ones that it refers to first.
            await self._add_references(found.references, known, (*within, version))
            known[version] = found.schema

    async def _schema(self, path: str) -> _Found:
        found = await self._request("GET", path)
        try:
            return _parsed(found)
        except ValueError as error:
            raise RegistryError(f"GET {self._shown}{path}: {error}") from None

    async def _cached(self, path: str) -> _Found:
        key = (self._key, path)
        if key not in _cache:
            found = await self._schema(path)
            if len(_cache) >= MAX_CACHED:
                del _cache[next(iter(_cache))]
            _cache[key] = found
            return found
        return _cache[key]

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(BACKOFF * 2 ** (attempt - 1))
            for url in self._urls:
                try:
                    response = await self._send(method, url, path, body)
                except HttpError as error:
                    problem = str(error)
                    continue
                if response.status < 500 and response.status != 429:
                    return self._content(response, f"{method} {url.shown.rstrip('/')}{path}")
                problem = f"HTTP status {response.status}"
        urls = ", ".join(url.shown for url in self._urls)
        raise RegistryError(f"the schema registry {urls} does not respond: {problem} ({method} {path})")

    async def _send(self, method: str, url: Url, path: str, body: Mapping[str, Any] | None) -> HttpResponse:
        target = url._replace(target=url.target.rstrip("/") + path)
        headers = dict(self._headers) if body is None else {**self._headers, "Content-Type": _TYPE}
        try:
            async with timeout(self._timeout):
                return await request(
                    method,
                    target,
                    headers,
                    b"" if body is None else json.dumps(body).encode(),
                    ssl_context=self._ssl,
                    connect_timeout=self._timeout,
                    read_timeout=self._timeout,
                )
        except asyncio.TimeoutError:
            raise HttpError(f"no complete response in {self._timeout:g} s") from None

    def _content(self, response: HttpResponse, what: str) -> Mapping[str, Any]:
        try:
            found = json.loads(response.body)
        except (ValueError, RecursionError):
            found = None
        message = found.get("message") if isinstance(found, dict) else None
        message = shown(message, hidden=self._hidden) if isinstance(message, str) else ""
        if response.status == 404 and isinstance(found, dict) and "error_code" in found:
            raise UnknownSchemaError(f"{what}: {message}")
        if not 200 <= response.status < 300:
            raise RegistryError(f"{what}: HTTP status {response.status} {message}".rstrip())
        if not isinstance(found, dict):
            raise RegistryError(f"{what}: the response is not that of a schema registry")
        return found


def _path(subject: str, version: object) -> str:
    return f"{_subject(subject)}/versions/{version}"


def _subject(subject: str) -> str:
    # The subject comes from an option or from the registry, and mustn't lead to another path of the server.
    if steps_up(subject):
        raise RegistryError(f"the subject {shown(repr(subject))} would be another path of the registry")
    return f"/subjects/{quote(subject, safe='')}"


def _parsed(found: Mapping[str, Any]) -> _Found:
    """Parse a response. Raises ``ValueError`` if it's malformed."""
    schema, kind, references = found.get("schema"), found.get("schemaType"), found.get("references")
    if not isinstance(schema, str):
        raise ValueError("the response has no schema")
    if not isinstance(references, list | None):
        raise ValueError("its references are malformed: expected a list")
    versions = [_version(reference) for reference in references or ()]
    return _Found("AVRO" if kind is None else str(kind), schema, versions, _id(found))


def _version(reference: Any) -> _Version:
    fields = reference if isinstance(reference, dict) else {}
    subject, number = fields.get("subject"), fields.get("version")
    # Refuse a lone surrogate, which JSON can have but a URL can't.
    if type(subject) is str and type(number) is int and subject.encode(errors="ignore").decode() == subject:
        return _Version(subject, number)
    raise ValueError("its references are malformed: expected subjects and versions")


def _id(found: Mapping[str, Any]) -> int | None:
    value = found.get("id")
    # Don't use isinstance(): a bool would pass as an int.
    return value if type(value) is int and 0 <= value < 1 << 32 else None


def _authorization(values: Mapping[str, Any]) -> str:
    """Return the value of the header, or an empty text."""
    if not (values["token"] or values["user_info"]):
        return ""
    option = "bearer.auth.token" if values["token"] else "basic.auth.user.info"
    try:
        data = (values["token"] or values["user_info"]).encode()
        found = f"Bearer {data.decode('ascii')}" if values["token"] else f"Basic {base64.b64encode(data).decode()}"
    except UnicodeError:
        # Drop the error: it contains the secret.
        found = ""
    if not (found and found.isprintable()):
        raise ConfigurationError(f"schema.registry.{option} has characters that HTTP cannot send")
    return found


_NAMES = {
    "user_info": "basic.auth.user.info",
    "token": "bearer.auth.token",
    "cafile": "ssl.cafile",
    "certfile": "ssl.certfile",
    "keyfile": "ssl.keyfile",
}


def _resolved(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    option = f"schema.registry.{_NAMES.get(name, name)}"
    try:
        found = resolve(option, value)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{option} cannot be resolved: {error}") from None
    # Refuse an empty value, which would act like a missing option: no login, or the system's authorities.
    if not found and refers(value):
        raise ConfigurationError(f"{option} is empty: {value} has nothing in it")
    return found


def _url(text: str, with_secret: bool) -> Url:
    if "@" in text:
        raise ConfigurationError(
            "schema.registry.url: user and password do not belong into the URL: "
            "use schema.registry.basic.auth.user.info"
        )
    url = parse_url("schema.registry.url", text, allow_http=True)
    if "?" in url.target:
        raise ConfigurationError(f"schema.registry.url: {url.shown} has a query, where paths of schemas follow")
    if with_secret and not url.tls and url.host not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigurationError(f"schema.registry.url: {url.shown} is not encrypted: use https to send a password")
    return url


def _context(values: Mapping[str, Any]) -> ssl.SSLContext:
    cafile, certfile, keyfile = (values[name] for name in ("cafile", "certfile", "keyfile"))
    used = f"schema.registry.ssl.cafile={cafile}"
    try:
        context = default_context(cafile)
        if certfile:
            used = f"schema.registry.ssl.certfile={certfile}"
            used += f", schema.registry.ssl.keyfile={keyfile}" if keyfile else ""
            # Always pass a password; otherwise OpenSSL would ask for it on the terminal.
            context.load_cert_chain(certfile, keyfile, password="")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{used} cannot be used: {error}") from None
    return context
