"""Draft the message modules from tables of protocol facts.

``python -m tools.codegen.generate FACTS`` writes ``src/aiokproto/codec/messages``, ``payloads`` and ``registry_table``
from a directory with ``messages.json`` and ``api_keys.json``; ``ruff check --fix`` and ``ruff format`` finish the
draft. The modules are then source like any other: this tool is for the next Kafka release, whose new fields it shows
as a diff.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from tools.codegen.purposes import PURPOSES, payload_purpose

TARGET = Path(__file__).parents[2] / "src" / "aiokproto" / "codec"
OPEN = 0x7FFF
BASIC = {"bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid", "string", "bytes", "records"}
SPELLING = {"records": "recordset"}
ROLES = {
    "topicName": "TopicName",
    "groupId": "GroupId",
    "transactionalId": "TransactionalId",
    "producerId": "ProducerId",
    "brokerId": "BrokerId",
}
"""``entityType`` → the annotation of the role."""
UNMARKED = {
    ("uuid", "topic_id"): "TopicId",
    ("int32", "partition"): "PartitionIndex",
    ("int32", "partition_index"): "PartitionIndex",
    ("[]int32", "partitions"): "PartitionIndex",
    ("[]int32", "partition_indexes"): "PartitionIndex",
    ("string", "group_id"): "GroupId",
}
"""Type and name → the role, where definitions give no ``entityType``: those that can be guessed."""
CONTROL = {
    "ControlRecordTypeSchema",
    "EndTxnMarker",
    "LeaderChangeMessage",
    "SnapshotHeaderRecord",
    "SnapshotFooterRecord",
    "KRaftVersionRecord",
    "VotersRecord",
}


def snake(name: str) -> str:
    """``ISRReplicaId`` → ``isr_replica_id``."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("k_raft", "kraft").replace("v3_and", "v3_and")


class Range:
    """A range of versions with the little algebra that drafting needs."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    @classmethod
    def parse(cls, text: str | None) -> Range:
        if text is None or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), OPEN)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    @property
    def empty(self) -> bool:
        return self.high < self.low

    def __and__(self, other: Range) -> Range:
        return Range(max(self.low, other.low), min(self.high, other.high))

    def __or__(self, other: Range) -> Range:
        if self.empty or other.empty:
            return other if self.empty else self
        return Range(min(self.low, other.low), max(self.high, other.high))

    def covers(self, other: Range) -> bool:
        return other.empty or (self.low <= other.low and other.high <= self.high)

    def __str__(self) -> str:
        if self.high == OPEN:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


class StructDraft:
    """A nested struct: its fields, and in which versions it is used."""

    def __init__(self, name: str, fields: list[dict[str, Any]]) -> None:
        self.name = name
        self.fields = fields
        self.used = Range(0, -1)


class MessageDraft:
    """One message with its structs in the order they must be defined."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.name: str = facts["name"]
        self.versions = Range.parse(facts["validVersions"])
        self.structs: dict[str, StructDraft] = {}
        self.common = {c["name"]: c["fields"] for c in facts.get("commonStructs", [])}
        self.renames: dict[str, str] = {}
        self._collect(facts["fields"], self.versions)

    def _collect(self, fields: list[dict[str, Any]], used: Range) -> None:
        for field in fields:
            base = field["type"].removeprefix("[]")
            if base in BASIC:
                continue
            inner = field.get("fields") or self.common[base]
            here = Range.parse(field["versions"]) & used
            draft = self.structs.get(base)
            if draft is not None:
                grown = draft.used | here
                if (grown.low, grown.high) == (draft.used.low, draft.used.high):
                    continue
                del self.structs[base]
            else:
                draft = StructDraft(base, inner)
                grown = here
            self._collect(inner, grown)
            draft.used = grown
            self.structs[base] = draft

    def body(self, fields: list[dict[str, Any]], used: Range) -> list[str]:
        lines = [self.field(field, used) for field in fields]
        return lines or ["pass"]

    def field(self, field: dict[str, Any], used: Range) -> str:
        array = field["type"].startswith("[]")
        base: str = field["type"].removeprefix("[]")
        versions = Range.parse(field["versions"]) & used
        arguments: list[str] = []
        everywhere = versions.covers(used)
        if not everywhere:
            arguments.append(f'"{Range.parse(field["versions"]) if not versions.empty else "none"}"')
        nullable = Range.parse(field.get("nullableVersions")) & versions
        if not nullable.empty and not nullable.covers(versions):
            arguments.append(f'nullable="{field["nullableVersions"]}"')
        if "tag" in field:
            arguments.append(f"tag={field['tag']}")
        default = self.default(field, base, array)
        arguments.append(default)
        if field.get("ignorable") and (not everywhere):
            arguments.append("ignorable=True")
        if field.get("flexibleVersions") == "none":
            arguments.append("flexible=False")
        guess = UNMARKED.get((field["type"], snake(field["name"])))
        role = ROLES.get(field.get("entityType", ""), guess)
        kind = role or SPELLING.get(base) or self.renames.get(base, base)
        annotation = f"list[{kind}]" if array else kind
        if not nullable.empty:
            annotation += " | None"
        plain = arguments == [default] and default.startswith("default=")
        value = default.removeprefix("default=") if plain else f"field({', '.join(arguments)})"
        return f"{snake(field['name'])}: {annotation} = {value}"

    def default(self, field: dict[str, Any], base: str, array: bool) -> str:
        if "default" in field and field["default"] is None:
            return "default=None"
        if array:
            return "factory=list"
        if "default" in field:
            return f"default={field['default']!r}"
        if base not in BASIC:
            return f"factory={self.renames.get(base, base)}"
        zeros = {
            "bool": "False",
            "float64": "0.0",
            "uuid": "ZERO_UUID",
            "string": '""',
            "bytes": 'b""',
            "records": "None",
        }
        return f"default={zeros.get(base, '0')}"


def normalised(draft: MessageDraft, struct: StructDraft) -> list[str]:
    return draft.body(struct.fields, struct.used)


def module(title: str, drafts: list[MessageDraft], headers: dict[str, str]) -> str:
    """The text of one module. Structs of the same name are one class if equal, else carry their message's name."""
    # A struct whose own text is equal may hold one that had to be renamed, and is renamed in the next pass.
    before = -1
    while before != (renamed := sum(len(draft.renames) for draft in drafts)):
        before = renamed
        for name in {n for d in drafts for n in d.structs}:
            owners = [d for d in drafts if name in d.structs]
            bodies = {tuple(normalised(d, d.structs[name])) for d in owners}
            if name in {d.name for d in drafts} or len(bodies) > 1:
                for d in owners:
                    d.renames[name] = d.name + name
    written: set[str] = set()
    blocks: list[str] = []
    for draft in drafts:
        for struct in draft.structs.values():
            name = draft.renames.get(struct.name, struct.name)
            if name not in written:
                written.add(name)
                blocks.append(klass(f"class {name}(Struct):", normalised(draft, struct)))
        blocks.append(klass(headers[draft.name], draft.body(draft.facts["fields"], draft.versions)))
    text = "\n\n\n".join(blocks)
    words = set(re.findall(r"\b\w+\b", text))
    known = ["Payload", "Request", "Response", "Route", "Struct", "field", "float64", "int16", "int32", "int64", "int8"]
    known += ["recordset", "string", "uint16", "uint32", "uuid", *ROLES.values(), "TopicId", "PartitionIndex"]
    imports = ["from __future__ import annotations", ""]
    names = [n for n in known if n in words]
    imports.append(f"from aiokproto.codec.schema import {', '.join(names)}")
    if "ZERO_UUID" in words:
        imports.append("from aiokproto.codec.wire import ZERO_UUID")
    return f'"""{title}"""\n\n' + "\n".join(imports) + "\n\n\n" + text + "\n"


def klass(header: str, body: list[str]) -> str:
    return "\n".join([header, *("    " + line for line in body)])


def keywords(facts: dict[str, Any]) -> str:
    parts = [f'versions="{facts["validVersions"]}"']
    if facts.get("flexibleVersions", "none") != "none":
        parts.append(f'flexible="{facts["flexibleVersions"]}"')
    if facts.get("latestVersionUnstable"):
        parts.append(f'unstable="{Range.parse(facts["validVersions"]).high}"')
    return ", ".join(parts)


def write_messages(messages: list[dict[str, Any]], apis: list[dict[str, Any]]) -> list[str]:
    """One module an API; returns the registry's rows."""
    rows = []
    for api in apis:
        name, key = api["apiName"], api["key"]
        pair = {m["type"]: m for m in messages if m.get("apiKey") == key and m["type"] in ("request", "response")}
        route, purpose = PURPOSES[name]
        request, response = pair["request"], pair["response"]
        headers = {
            response["name"]: f"class {response['name']}(Response, key={key}, {keywords(response)}):",
            request["name"]: f"class {request['name']}(Request[{response['name']}], key={key}, {keywords(request)}, "
            f"route=Route.{route}):",
        }
        title = f"{name} (ApiKey {key}): {purpose}."
        text = module(title, [MessageDraft(response), MessageDraft(request)], headers)
        (TARGET / "messages" / f"{snake(name)}.py").write_text(text)
        rows.append(f'    {key}: ("{snake(name)}", "{name}"),')
    return rows


def stem_of(message: dict[str, Any]) -> str:
    name = message["name"]
    if message["type"] == "header":
        return "header"
    if name.startswith("ConsumerProtocol"):
        return "consumer_protocol"
    if name in CONTROL:
        return "control_records"
    if message["type"].startswith("coordinator"):
        name = re.sub(r"(Key|Value)$", "", name)
    return snake(name)


def write_payloads(messages: list[dict[str, Any]]) -> list[str]:
    stems: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        if message["type"] not in ("request", "response"):
            stems.setdefault(stem_of(message), []).append(message)
    rows = []
    for stem, group in stems.items():
        headers = {m["name"]: f"class {m['name']}(Payload, {keywords(m)}):" for m in group}
        title = payload_purpose(stem, {m["type"] for m in group})
        folder = "messages" if stem == "header" else "payloads"
        (TARGET / folder / f"{stem}.py").write_text(module(title, [MessageDraft(m) for m in group], headers))
        rows += [f'    "{m["name"]}": "{folder}.{stem}",' for m in group]
    return rows


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path, help="directory with messages.json and api_keys.json")
    facts = parser.parse_args().facts
    messages = json.loads((facts / "messages.json").read_text())
    apis = json.loads((facts / "api_keys.json").read_text())
    api_rows = write_messages(messages, apis)
    payload_rows = write_payloads(messages)
    table = [
        '"""Where each message is declared."""',
        "",
        "from __future__ import annotations",
        "",
        "APIS: dict[int, tuple[str, str]] = {",
        *api_rows,
        "}",
        '"""ApiKey → (module under ``codec.messages``, API name)."""',
        "",
        "PAYLOADS: dict[str, str] = {",
        *sorted(payload_rows),
        "}",
        '"""Message name → module under ``codec``."""',
        "",
    ]
    (TARGET / "registry_table.py").write_text("\n".join(table))


if __name__ == "__main__":
    main()
