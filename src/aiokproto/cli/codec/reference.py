"""The verb ``export``: the whole protocol as plain data."""

from __future__ import annotations

from typing import Any

from aiokproto.cli.codec.grammar import common, type_name
from aiokproto.codec.documentation import describe, describe_field
from aiokproto.codec.json import default_json, json_name
from aiokproto.codec.registry import api_keys, api_name, lookup, payload_names, request, response
from aiokproto.codec.schema import FieldSpec, Message, Struct, Versions
from aiokproto.error_codes import ErrorCode

FORMAT = 1
"""The version of the layout, incremented by incompatible changes."""


def reference() -> dict[str, Any]:
    """Return all APIs, messages, fields and error codes. The result is deterministic."""
    return {
        "format": FORMAT,
        "apis": [_api(key) for key in api_keys()],
        "payloads": [_message(lookup(name)) for name in sorted(payload_names())],
        "errors": [
            {
                "code": code.value,
                "name": code.name,
                "retriable": code.retriable,
                "refreshMetadata": code.refresh_metadata,
            }
            for code in sorted(ErrorCode)
        ],
    }


def _api(key: int) -> dict[str, Any]:
    message = request(key)
    return {
        "apiKey": key,
        "name": api_name(key),
        "route": message.route.name.lower(),
        "request": _message(message) | {"headerVersions": _headers(message)},
        "response": _message(response(key)) | {"headerVersions": _headers(response(key))},
    }


def _headers(message: Any) -> dict[str, int]:
    versions = range(message.versions.lowest, message.versions.highest + 1)
    return {str(version): message.header_version(version) for version in versions}


def _message(message: type[Message]) -> dict[str, Any]:
    about = describe(message)
    return {
        "name": message.__name__,
        **({"about": about} if about else {}),
        "versions": str(message.versions),
        "flexible": str(common(message.flexible, message.versions)),
        "unstable": str(message.unstable),
        "fields": _fields(message, message.versions),
    }


def _fields(struct: type[Struct], within: Versions) -> list[dict[str, Any]]:
    return [_field(spec, common(spec.versions, within)) for spec in struct.fields()]


def _field(spec: FieldSpec, versions: Versions) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": json_name(spec.name),
        "python": spec.name,
        "type": type_name(spec),
        "versions": str(versions),
        "nullable": str(common(spec.nullable, versions)),
        "ignorable": spec.ignorable,
    }
    about = describe_field(spec)
    if about:
        facts["about"] = about
    if spec.tag is not None:
        facts["tag"] = spec.tag
    if not spec.flexible:
        facts["flexible"] = "none"
    facts["default"] = default_json(spec)
    if spec.struct is not None:
        facts["fields"] = _fields(spec.struct, versions)
    return facts
