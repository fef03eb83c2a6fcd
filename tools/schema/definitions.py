"""Kafka's own definitions of its messages: the JSON that its jars carry."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aiokproto.codec.schema import Versions

PLACE = re.compile(r"(?:common/)?message/\w+\.json")
RELEASE = re.compile(r"-(\d+(?:\.\d+)+)[^/]*\.jar$")
# A string is matched first, so that the slashes of an address in it begin no comment.
STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


class Definition(NamedTuple):
    """A message as one release defines it."""

    release: str
    json: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.json["name"])

    @property
    def versions(self) -> Versions:
        return Versions.parse(self.json["validVersions"])

    @property
    def flexible(self) -> Versions:
        return Versions.parse(self.json.get("flexibleVersions", "none"))

    @property
    def identity(self) -> object:
        """What it is the same message by as in other releases: an API may get another name, its key stays."""
        kind = self.json["type"]
        return (kind, self.json["apiKey"]) if kind in ("request", "response") else self.name

    def struct_fields(self, field: dict[str, Any]) -> list[dict[str, Any]] | None:
        """The fields of the struct that a field is, or is a list of; None if it is something else."""
        kind = field["type"].removeprefix("[]")
        if not kind[0].isupper():
            return None
        if "fields" in field:
            return list(field["fields"])
        return next(list(common["fields"]) for common in self.json["commonStructs"] if common["name"] == kind)


def read(jars: Iterable[Path]) -> list[list[Definition]]:
    """The definitions in the jars: a list for each message, the newest release first."""
    messages: dict[object, list[Definition]] = {}
    for jar in sorted(jars, key=_release_order, reverse=True):
        for definition in _in_jar(jar):
            messages.setdefault(definition.identity, []).append(definition)
    return list(messages.values())


def strip_comments(text: str) -> str:
    return STRING_OR_COMMENT.sub(lambda match: match[1] or "", text)


def _in_jar(jar: Path) -> Iterator[Definition]:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if PLACE.fullmatch(name):
                definition = Definition(_release(jar), json.loads(strip_comments(archive.read(name).decode())))
                # "none" is what is left of an API that a release removed.
                if definition.json["validVersions"] != "none":
                    yield definition


def _release(jar: Path) -> str:
    match = RELEASE.search(jar.name)
    return match[1] if match else jar.name


def _release_order(jar: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", _release(jar))]
