"""What the pages of the protocol reference say, as Markdown: all of it read from declarations and error codes."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

from aiokproto.cli.codec.diff import changes
from aiokproto.cli.codec.grammar import Line, common, grammar, lines, type_name
from aiokproto.cli.codec.names import newest
from aiokproto.codec.documentation import describe, describe_field
from aiokproto.codec.json import default_json
from aiokproto.codec.registry import api_keys, api_name, lookup, payload_names, request, response
from aiokproto.codec.schema import Message, Versions
from aiokproto.error_codes import ErrorCode, Policy

_HEAD = "| Field | Type | Versions | Null in | Tag | Default | | Meaning |"
_POLICY = {
    Policy.RETRY: "worth another attempt",
    Policy.REFRESH: "metadata is out of date",
    Policy.AUTHORIZATION: "not allowed",
    Policy.AUTHENTICATION: "not authenticated",
}


def pages() -> dict[str, str]:
    """Every page: its name in the folder → its text."""
    made = {"index.md": _index(), "errors.md": _errors(), "payloads.md": _payloads()}
    for key in api_keys():
        made[f"apis/{_stem(request(key))}.md"] = _api(key)
    for stem, messages in _by_module().items():
        made[f"payloads/{stem}.md"] = _payload(messages)
    return made


def write_pages(folder: Path) -> None:
    """Bring a folder of pages to where the declarations are; what has not changed is left alone."""
    wanted = pages()
    folder.mkdir(exist_ok=True)
    for page in folder.rglob("*.md"):
        if page.relative_to(folder).as_posix() not in wanted:
            page.unlink()
    for name, text in wanted.items():
        page = folder / name
        # A page that is written again is built again, and there are many.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")


def _stem(message: type[Message]) -> str:
    return message.__module__.rpartition(".")[2]


def _by_module() -> dict[str, list[type[Message]]]:
    """The messages that are neither request nor response, by the module they share."""
    modules: dict[str, list[type[Message]]] = {}
    for name in payload_names():
        modules.setdefault(_stem(lookup(name)), []).append(lookup(name))
    return modules


def _index() -> str:
    rows = [
        f"| {key} | [{api_name(key)}](apis/{_stem(message)}.md) | {_facts(message)} | {message.route.value} |"
        for key, message in ((key, request(key)) for key in api_keys())
    ]
    return f"""\
# The protocol

Every request of the Kafka protocol, with all versions. These pages are made from the declarations in
`aiokproto.codec` and cannot differ from them. [Error codes](errors.md) and [what is inside records and bytes
fields](payloads.md) have pages of their own.

The same is to be had in a shell, with a decoder and an encoder for captured bytes; `--help` tells more of each:

```text
python -m aiokproto.codec list
python -m aiokproto.codec show Metadata 12
python -m aiokproto.codec diff Fetch 11 12
python -m aiokproto.codec decode @sent.bin
python -m aiokproto.codec decode --response --requests @sent.bin --records @received.bin
python -m aiokproto.codec encode --as Metadata:12 '{{"topics": null}}'
python -m aiokproto.codec export > protocol.json
```

In JSON, messages look as Kafka's own converters write them; `aiokproto.codec.json` does that for a program.

In the tables, a field with no default must be given; `{{}}` is a struct of defaults. A field that is ignorable is
silently left out of a version that lacks it; of any other, a value that is not the default is an error there.

| ApiKey | API | Versions | Flexible | Unstable | Goes to |
|---|---|---|---|---|---|
{_rows(rows)}

```{{toctree}}
:hidden:
:glob:

errors
payloads
apis/*
payloads/*
```
"""


def _payloads() -> str:
    rows = [
        f"| [{message.__name__}](payloads/{stem}.md#{_anchor(message)}) | {_facts(message)} |"
        for stem, messages in _by_module().items()
        for message in messages
    ]
    return f"""\
# Headers and payloads

Headers, and the messages that are inside bytes fields, records and files.

| Message | Versions | Flexible | Unstable |
|---|---|---|---|
{_rows(rows)}
"""


def _errors() -> str:
    rows = [
        f"| {code.value} | {code.name} | {', '.join(text for flag, text in _POLICY.items() if code.policy & flag)} |"
        for code in sorted(ErrorCode)
    ]
    return f"""\
# Error codes

What the `error_code` fields of responses mean; in Python they are `aiokproto.error_codes.ErrorCode`. How errors
reach a program is on the page [Errors](../errors.md).

| Code | Name | |
|---|---|---|
{_rows(rows)}
"""


def _api(key: int) -> str:
    message = request(key)
    parts = [f"# {api_name(key)}\n", f"{_purpose(message)}\n", f"ApiKey {key}. Goes to: {message.route.value}.\n"]
    return "\n".join([*parts, _section(message), _section(response(key))])


def _payload(messages: list[type[Message]]) -> str:
    title = _stem(messages[0]).replace("_", " ").capitalize()
    return "\n".join([f"# {title}\n", f"{_purpose(messages[0])}\n", *map(_section, messages)])


def _purpose(message: type[Message]) -> str:
    """The module's first sentence, without the name that the page has as its title."""
    module = inspect.getmodule(message)
    first = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
    text = re.sub(r"^\w+ \(ApiKey \d+\): ", "", first)
    return text[:1].upper() + text[1:]


def _section(message: type[Message]) -> str:
    """A message: its facts, fields, what each version changed, and the newest grammar."""
    version = newest(message)
    facts = [f"versions {message.versions}"]
    if (flexible := common(message.flexible, message.versions)).highest >= flexible.lowest:
        facts.append(f"flexible {flexible}")
    if (unstable := common(message.unstable, message.versions)).highest >= unstable.lowest:
        facts.append(f"unstable {unstable}")
    rows = [_row(message, line) for line in lines(message)]
    table = [_HEAD, "|---|---|---|---|---|---|---|---|", *rows] if rows else ["No fields."]
    return "\n".join(
        [
            f"({_anchor(message)})=",
            f"## {message.__name__}\n",
            f"`{message.__module__}.{message.__name__}`: {', '.join(facts)}.\n",
            *([f"{_prose(describe(message))}\n"] if describe(message) else []),
            *table,
            "",
            *_history(message),
            f"Version {version}:\n",
            "```text",
            f"{grammar(message, version)}```\n",
        ]
    )


def _row(message: type[Message], line: Line) -> str:
    spec = line.spec
    versions = "all" if line.versions == message.versions else str(line.versions)
    nullable = "" if line.nullable.highest < line.nullable.lowest else _within(line.nullable, line.versions)
    default = f"`{_default(default_json(spec))}`"
    tag = "" if spec.tag is None else str(spec.tag)
    note = "ignorable" if spec.ignorable else ""
    meaning = _cell(describe_field(spec))
    cells = [f"`{line.path}`", f"`{type_name(spec)}`", versions, nullable, tag, default, note, meaning]
    return f"| {' | '.join(cells)} |"


def _prose(text: str) -> str:
    return "\n\n".join(_cell(" ".join(paragraph.split())) for paragraph in text.split("\n\n"))


def _cell(text: str) -> str:
    """A text inside a table, as Markdown reads it: a bar would end the cell, and brackets and `<` mean something."""
    code = re.split(r"(`[^`]*`)", text.replace("``", "`").replace("|", "\\|"))
    return "".join(part if part.startswith("`") else re.sub(r"([\[\]<*_])", r"\\\1", part) for part in code)


def _within(nullable: Versions, versions: Versions) -> str:
    return "all of them" if nullable == versions else str(nullable)


def _default(value: object) -> str:
    return '""' if value == "" else json.dumps(value).strip('"')


def _history(message: type[Message]) -> Iterator[str]:
    versions = range(message.versions.lowest + 1, message.versions.highest + 1)
    history = [(version, changes(message, version - 1, version)) for version in versions]
    if history:
        yield "Changes:\n"
    for version, found in history:
        texts = [f"{change.kind} `{change.path}`: {change.text}" if change.path else change.text for change in found]
        yield f"- **{version}**: {'; '.join(texts) or 'same fields'}"
    if history:
        yield ""


def _facts(message: type[Message]) -> str:
    flexible = common(message.flexible, message.versions)
    texts = [str(versions) for versions in (message.versions, flexible, message.unstable)]
    return " | ".join("" if text == "none" else text for text in texts)


def _anchor(message: type[Message]) -> str:
    return f"message-{message.__name__.lower()}"


def _rows(rows: list[str]) -> str:
    return "\n".join(rows)
