"""A client of schema registries, with the HTTP API of Confluent's.

A process keeps what it has found by id or version, which never changes; the latest version of a subject is requested
each time, and only by the driver.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.security.http_request import HttpError, HttpResponse, Url, parse_url, request
from aiokproto.spark.credentials import fingerprint, resolve
from aiokproto.spark.payloads.options import RegistryOptions

ATTEMPTS = 4
"""Requests to each URL, before a request fails."""
BACKOFF = 0.2
"""Wait before the second request (s); doubles with each further one."""
MAX_REFERENCES = 200
"""Most schemas that a schema may refer to, directly or not."""

_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryError(KafkaError):
    """A schema registry does not respond, rejects the client, or does not have a schema."""


class UnknownSchemaError(RegistryError):
    """The registry has no such schema, subject or version."""


@dataclass(frozen=True)
class AvroSchema:
    """A schema with those that it refers to by name.

    Attributes:
        schema: The schema, as JSON.
        references: The others, each after those that it refers to itself.
        id: The id in the registry; None for one that is not from there.
    """

    schema: str
    references: tuple[str, ...] = ()
    id: int | None = None

    def to_text(self) -> str:
        """Return it as one text: the schema alone if it has no references."""
        if not self.references and self.id is None:
            return self.schema
        return json.dumps({"aiokproto": 1, "schema": self.schema, "references": self.references, "id": self.id})

    @classmethod
    def from_text(cls, text: str) -> AvroSchema:
        """Parse what :meth:`to_text` returned, or what an option has."""
        try:
            found = json.loads(text)
        except ValueError:
            # A bare name is a schema, too, as in {"type": "string"}.
            return cls(json.dumps(text))
        if isinstance(found, dict) and found.get("aiokproto") == 1:
            return cls(found["schema"], tuple(found["references"]), found["id"])
        return cls(text)


_found: dict[tuple[str, str], Any] = {}
"""By registry and path, what never changes."""


class Registry:
    """A schema registry."""

    def __init__(self, options: RegistryOptions) -> None:
        """Raises :class:`ConfigurationError` for options that are invalid, or refer to what does not exist."""
        values = {name: _resolved(name, value) for name, value in vars(options).items()}
        self._key = fingerprint(values)
        self._timeout = options.timeout
        self._headers = {"Accept": f"{_TYPE}, application/json"}
        secret = ""
        if values["user_info"]:
            secret = "Basic " + base64.b64encode(values["user_info"].encode()).decode()
        if values["token"]:
            secret = f"Bearer {values['token']}"
        if secret:
            if not (secret.isascii() and secret.isprintable()):
                raise ConfigurationError("schema.registry.bearer.auth.token has characters that HTTP cannot send")
            self._headers["Authorization"] = secret
        self._urls = [_url(text.strip(), bool(secret)) for text in values["url"].split(",") if text.strip()]
        self._ssl = _context(values) if any(url.tls for url in self._urls) else None

    async def by_id(self, schema_id: int) -> AvroSchema:
        """Return the schema with an id.

        Raises:
            UnknownSchemaError: There is none.
            RegistryError: It is none of Avro; or the registry does not respond, or rejects the client.
        """
        found = await self._cached(f"/schemas/ids/{schema_id}")
        return await self._with_references(found, schema_id)

    async def of_subject(self, subject: str, version: str) -> AvroSchema:
        """Return a version of a subject's schema; raises as :meth:`by_id`."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        found = await (self._request("GET", path) if version == "latest" else self._cached(path))
        return await self._with_references(found, _integer(found, "id"))

    async def id_of(self, subject: str, schema: AvroSchema, *, register: bool) -> int:
        """Return the id of a schema in a subject; ``register`` adds it. Raises as :meth:`by_id`."""
        path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
        return _integer(await self._request("POST", path, {"schema": schema.schema}), "id")

    async def _with_references(self, found: Mapping[str, Any], schema_id: int) -> AvroSchema:
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise RegistryError(f"schema {schema_id} of the registry {self._urls[0].shown} is {kind}, not Avro")
        references: dict[tuple[str, int], str] = {}
        await self._add_references(found.get("references") or (), references)
        return AvroSchema(str(found.get("schema")), tuple(references.values()), schema_id)

    async def _add_references(self, names: Sequence[Any], known: dict[tuple[str, int], str], depth: int = 0) -> None:
        for one in names:
            subject, version = str(one["subject"]), int(one["version"])
            if (subject, version) in known:
                continue
            if len(known) >= MAX_REFERENCES or depth >= MAX_REFERENCES:
                raise RegistryError(f"a schema of {self._urls[0].shown} refers to more than {MAX_REFERENCES} others")
            found = await self._cached(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            # Those that it refers to itself come first, for whoever reads them in order.
            await self._add_references(found.get("references") or (), known, depth + 1)
            known[subject, version] = str(found.get("schema"))

    async def _cached(self, path: str) -> Any:
        key = (self._key, path)
        if key not in _found:
            _found[key] = await self._request("GET", path)
        return _found[key]

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
                    return _content(response, f"{method} {url.shown.rstrip('/')}{path}")
                problem = f"HTTP status {response.status}"
        shown = ", ".join(url.shown for url in self._urls)
        raise RegistryError(f"the schema registry {shown} does not respond: {problem} ({method} {path})")

    async def _send(self, method: str, url: Url, path: str, body: Mapping[str, Any] | None) -> HttpResponse:
        target = url._replace(target=url.target.rstrip("/") + path)
        headers = dict(self._headers) if body is None else {**self._headers, "Content-Type": _TYPE}
        return await request(
            method,
            target,
            headers,
            b"" if body is None else json.dumps(body).encode(),
            ssl_context=self._ssl,
            connect_timeout=self._timeout,
            read_timeout=self._timeout,
        )


def _resolved(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    option = f"schema.registry.{name}"
    try:
        return resolve(option, value)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{option} cannot be resolved: {error}") from None


def _url(text: str, with_secret: bool) -> Url:
    if "@" in text:
        raise ConfigurationError(
            "schema.registry.url: user and password do not belong into the URL: "
            "use schema.registry.basic.auth.user.info"
        )
    url = parse_url("schema.registry.url", text, allow_http=True)
    if with_secret and not url.tls and url.host not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigurationError(f"schema.registry.url: {url.shown} is not encrypted: use https to send a password")
    return url


def _context(values: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=values["cafile"])
        if values["certfile"]:
            context.load_cert_chain(values["certfile"], values["keyfile"])
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"schema.registry.ssl: a file cannot be read: {error}") from None
    return context


def _content(response: HttpResponse, what: str) -> Any:
    try:
        found = json.loads(response.body)
    except ValueError:
        found = None
    if response.status == 404 and isinstance(found, dict) and "error_code" in found:
        raise UnknownSchemaError(f"{what}: {str(found.get('message'))[:200]}")
    if not 200 <= response.status < 300:
        message = found.get("message", "") if isinstance(found, dict) else ""
        raise RegistryError(f"{what}: HTTP status {response.status} {str(message)[:200]}".rstrip())
    if not isinstance(found, dict):
        raise RegistryError(f"{what}: the response is not that of a schema registry")
    return found


def _integer(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise RegistryError(f"the response of the schema registry has no {name}")
    return value
