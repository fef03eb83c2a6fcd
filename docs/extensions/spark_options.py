"""The page with the options of the Spark data source, made from its option tables.

``python -m docs.extensions.spark_options`` writes ``docs/spark/options.md``; a test compares the two.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from aiokproto.spark.option_table import Option
from aiokproto.spark.options import READING
from aiokproto.spark.payloads.options import PAYLOAD_OPTIONS
from aiokproto.spark.sink.options import WRITING

PAGE = Path(__file__).parents[1] / "spark" / "options.md"

_OF_THE_CLIENT = re.compile(r"The client's option ``(\w+)``\.")
_SIZES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}


def page() -> str:
    """Return the text of the page."""
    reading = {name: option for name, option in READING.honoured.items() if not _is_shared(name, option)}
    writing = {name: option for name, option in WRITING.honoured.items() if not _is_shared(name, option)}
    exactly_once = {name: writing.pop(name) for name in _of_transactions(writing)}
    client = {name: option for name, option in READING.honoured.items() if _OF_THE_CLIENT.fullmatch(option.meaning)}
    others = {
        name: option
        for name, option in READING.honoured.items()
        if _is_shared(name, option) and name not in client and name not in PAYLOAD_OPTIONS
    }
    return f"""\
<!-- This page is generated: run python -m docs.extensions.spark_options -->

# Options of the Spark data source

Find an option here by what you want to do: [read](#reading), [write](#writing), write [exactly once](#exactly-once),
decode [JSON and Avro](#formats), or [connect](#connection). The [guide](guide.md) explains how to use them.

Names are case-insensitive. Every option of Spark's own connector and of the Java clients (consumer, producer and admin)
is on one of three lists: it has an effect, it's accepted [without effect](#without-effect), or it's
[refused](#refused). A name on none of them is an error that suggests the closest name, where the official connector
would ignore it. `load()` checks names and most values; the rest is checked when a query is planned.

## Reading

{_table(reading)}
## Writing

Options of reading have no effect on a write, so one set of options can serve both.

{_table(writing)}
## Exactly once

These need `semantics=exactly_once`: see [exactly once](exactly-once.md).

{_table(exactly_once)}
## Formats

For keys the same options start with `key.`: see [JSON and Avro](formats.md).

{_table({name: option for name, option in PAYLOAD_OPTIONS.items() if not name.startswith("key.")})}
## Connection

`kafka.bootstrap.servers` is required, for reading and writing. These options are the client's own, by their Java names.
Their links lead to what they mean, and [TLS and authentication](security.md) shows how to use them.

{_client_table(client)}
{_table(others)}
## Without effect

These are accepted so that jobs which set them keep working: they change neither the rows nor their safety.

| option of a read | |
|---|---|
{_reasons(READING.without_effect)}

A write accepts the options of reading in the same way, and these:

| option of a write | |
|---|---|
{_reasons(_own(WRITING.without_effect, {*READING.honoured, *READING.without_effect, *READING.refused}))}

## Refused

Each is refused with the reason. Options for security are refused even where they would have no effect, because their
user expects a protection that doesn't exist.

| option | |
|---|---|
{_reasons(READING.refused)}

A write refuses the same, except for the options that say what to read, and these:

| option of a write | |
|---|---|
{_reasons(_own(WRITING.refused, READING.refused))}
"""


def _is_shared(name: str, option: Option) -> bool:
    """Return whether an option is neither of reading nor of writing alone."""
    return WRITING.honoured.get(name) == READING.honoured.get(name) == option


def _of_transactions(options: Mapping[str, Option]) -> list[str]:
    return [
        name
        for name in options
        if name in ("transactionalIdPrefix", "stateTopic", "jobId", "jobVersion", "onTransactionLoss")
        or name.startswith("kafka.transaction.")
    ]


def _own(options: Mapping[str, str], others: Mapping[str, str] | set[str]) -> dict[str, str]:
    return {name: reason for name, reason in options.items() if name not in others}


def _table(options: Mapping[str, Option]) -> str:
    rows = "".join(f"| `{name}` | {_default(option)} | {_cell(option.meaning)} |\n" for name, option in options.items())
    return f"| option | default | meaning |\n|---|---|---|\n{rows}"


def _client_table(options: Mapping[str, Option]) -> str:
    rows = ""
    for name, option in options.items():
        found = _OF_THE_CLIENT.fullmatch(option.meaning)
        assert found
        rows += f"| `{name}` | [`{found[1]}`](../configuration.md#{found[1]}) |\n"
    return f"| option | the client's option |\n|---|---|\n{rows}"


def _default(option: Option) -> str:
    if option.default is None:
        return ""
    size = int(option.default) if option.default.isdecimal() else 0
    readable = next((f" ({size // of} {unit})" for unit, of in _SIZES.items() if size and size % of == 0), "")
    return f"`{option.default}`{readable}"


def _reasons(options: Mapping[str, str]) -> str:
    """Return rows, one for each reason."""
    ordered = sorted(options, key=lambda name: (list(options.values()).index(options[name]), name.lower()))
    return "\n".join(
        f"| {', '.join(_names(group))} | {_cell(reason)} |"
        for reason, group in itertools.groupby(ordered, key=options.__getitem__)
    )


def _names(names: Iterator[str]) -> Iterator[str]:
    return (f"`{name}…`" if name.endswith(".") else f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
