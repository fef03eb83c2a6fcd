"""Differences between the declarations here and Kafka's definitions: missing, extra and different messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from aiokproto.codec import registry
from aiokproto.codec.schema import Message, Request, Response, Struct
from tools.schema.definitions import Definition
from tools.schema.views import View, differences, is_true, kafka_views, our_views

KNOWN: dict[str, str] = {
    "ShareGroupPartitionMetadataValue 0": "early access in 3.9, redefined under the same number in 4.0, then removed",
}
"""Message and version → why its difference is right."""


class Report(NamedTuple):
    findings: list[str]
    """Differences, each beginning with MISSING, EXTRA or DIFFERS."""
    known: list[str]
    """The keys of `KNOWN` whose difference is still there."""
    compared: set[tuple[str, int]]
    """Names and versions of the messages that were compared."""
    uncovered: set[str]
    """Messages declared here that no jar defines."""


def check(messages: list[list[Definition]]) -> Report:
    """Compare everything declared here with the definitions, as `definitions.read` gives them."""
    report = Report([], [], set(), {message.__name__ for message in _all_ours()})
    for definitions in messages:
        newest = definitions[0]
        ours = declared(newest)
        if ours is None:
            report.findings.append(f"MISSING {newest.name} {newest.versions} (Kafka {newest.release})")
            continue
        report.uncovered.discard(ours.__name__)
        # Until 4.0 the version of a coordinator's key was its record type, which now stands before it.
        report.findings.extend(_check_stability(ours, newest))
        usable = definitions[:1] if newest.json["type"] == "coordinator-key" else definitions
        _check_versions(ours, usable, report)
    return report


def _all_ours() -> Iterator[type[Message]]:
    for key in registry.api_keys():
        yield from (registry.request(key), registry.response(key))
    yield from map(registry.lookup, registry.payload_names())


def declared(definition: Definition) -> type[Message] | None:
    """Return the message declared here that a definition defines; None if it is new."""
    try:
        found = registry.lookup(definition.name)
    except KeyError:
        return None
    if issubclass(found, Request | Response):
        # A name may have gone to another API.
        return found if found.api_key == definition.json["apiKey"] else None
    return found


def _check_stability(ours: type[Message], newest: Definition) -> Iterator[str]:
    """Compare with the newest release only: versions that were unstable in older ones are stable, or replaced."""
    highest = newest.versions.highest
    unstable = is_true(newest.json.get("latestVersionUnstable"))
    if unstable != (highest in ours.unstable):
        yield f"DIFFERS {ours.__name__} {highest}: unstable is {not unstable}, Kafka's {unstable}"


def _check_versions(ours: type[Message], definitions: list[Definition], report: Report) -> None:
    # The newest release that still has a version defines it.
    tells = {version: it for it in reversed(definitions) for version in range(it.versions[0], it.versions[1] + 1)}
    for version, definition in sorted(tells.items()):
        where = f"{ours.__name__} {version}"
        if version in ours.versions:
            found = list(check_message(ours, definition, version))
            report.compared.add((ours.__name__, version))
        else:
            found = [f"MISSING {where}"]
        if found and where in KNOWN:
            report.known.append(where)
        else:
            report.findings.extend(f"{line} (Kafka {definition.release})" for line in found)
    # Those below have been removed from Kafka before the releases compared with.
    for version in range(min(tells), ours.versions.highest + 1):
        if version not in tells:
            report.findings.append(f"EXTRA {ours.__name__} {version}")


def check_message(ours: type[Message], definition: Definition, version: int) -> Iterator[str]:
    """Yield the missing, extra and different fields of one version of a declaration."""
    flexible = version in definition.flexible
    if flexible != (version in ours.flexible):
        yield f"DIFFERS {ours.__name__} {version}: flexible is {not flexible}, Kafka's {flexible}"
    yield from _check_struct(ours, definition, definition.json["fields"], version, f"{ours.__name__} {version}: ")


def _check_struct(
    struct: type[Struct], definition: Definition, fields: list[dict[str, Any]], version: int, where: str
) -> Iterator[str]:
    flexible = version in definition.flexible
    ours, we_ignore = our_views(struct, version, flexible=flexible)
    kafka, kafka_ignores = kafka_views(definition, fields, version, flexible=flexible)
    yield from (f"MISSING {where}{name}" for name in kafka if name not in ours)
    yield from (f"EXTRA {where}{name}" for name in ours if name not in kafka)
    both = [name for name in ours if name in kafka]
    if both != (order := [name for name in kafka if name in ours]):
        yield f"DIFFERS {where}order is {both}, Kafka's {order}"
    for name in we_ignore.keys() & kafka_ignores.keys():
        if we_ignore[name] != kafka_ignores[name]:
            yield f"DIFFERS {where}{name}: ignorable is {we_ignore[name]}, Kafka's {kafka_ignores[name]}"
    for name in both:
        yield from _check_field(ours[name], kafka[name], definition, version, f"{where}{name}")


def _check_field(ours: View, kafka: View, definition: Definition, version: int, where: str) -> Iterator[str]:
    yield from (f"DIFFERS {where}: {line}" for line in differences(ours, kafka))
    if ours.inner is not None and kafka.inner is not None:
        yield from _check_struct(ours.inner, definition, kafka.inner, version, f"{where}.")
