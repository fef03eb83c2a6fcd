"""Java's bytes of every message in every version decode to the same values, and encode to the same bytes."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from aiokproto.codec import registry
from aiokproto.codec.schema import Message, Versions
from aiokproto.errors import DecodeError
from tests.codec.fill import all_messages, all_versions
from tests.figures import LINES
from tests.java import exceptions, generated_vectors
from tests.java.compare import Comparison, to_be_seen, unknown_tags
from tools.setup.project import MESSAGES_RELEASES

# The first test has Java compile and write all the vectors.
pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

Seen = dict[int, set[tuple[str, str]]]
Vectors = dict[str, list[generated_vectors.Vector]]


@pytest.fixture(scope="session")
def generated(request: pytest.FixtureRequest) -> generated_vectors.Generated:
    made = generated_vectors.generate(request.config.option.java_seeds)
    request.config.stash[LINES].extend(f"compared with Java: {line}" for line in figures(made))
    return made


@pytest.fixture(scope="session")
def vectors(generated: generated_vectors.Generated) -> Vectors:
    """Vectors by the name of our message."""
    by_name = defaultdict(list)
    for vector in generated.vectors:
        if not exceptions.is_redefined(vector):
            by_name[exceptions.name_here(vector)].append(vector)
    return by_name


def numbers(versions: Versions) -> range:
    return range(versions.lowest, versions.highest + 1)


def figures(generated: generated_vectors.Generated) -> Iterator[str]:
    ours = {(key, version) for key in registry.api_keys() for version in numbers(registry.request(key).versions)}
    covered = {(row.api_key, row.version) for row in generated.headers}
    for release in MESSAGES_RELEASES:
        pairs = {(row.api_key, row.version) for row in generated.headers if row.release == release}
        keys = len({key for key, _ in pairs})
        yield f"Kafka {release}: {keys} ApiKeys, {len(pairs)} pairs of request and response"
    yield f"together: {len({key for key, _ in covered & ours})} of {len(registry.api_keys())} ApiKeys"
    yield f"pairs: {len(covered & ours)} of {len(ours)} known to Java, {len(ours - covered)} declared from facts alone"
    versions = {
        (exceptions.name_here(vector), exceptions.version_here(vector))
        for vector in generated.vectors
        if not exceptions.is_redefined(vector)
    }
    yield f"message-versions: {len(versions)} of {len(all_versions())}"
    styles = Counter(vector.style.rstrip("0123456789") for vector in generated.vectors)
    yield f"vectors: {len(generated.vectors)} ({', '.join(f'{count} {style}' for style, count in styles.items())})"


def faults(vector: generated_vectors.Vector, seen: Seen, *, without: str | None = None) -> list[str]:
    """What is not as Java has it. ``without``: one of the fields' old names that is not to be understood."""
    message, version = registry.lookup(exceptions.name_here(vector)), exceptions.version_here(vector)
    try:
        made = message.decode(vector.data, version)
    except DecodeError as error:
        return [f"{vector}: {error}"]
    renamed = {old: new for old, new in exceptions.old_fields(vector).items() if old != without}
    comparison = Comparison(version, renamed, seen.setdefault(version, set()))
    found = list(comparison.differences(made, vector.values, message.__name__))
    if (tags := list(unknown_tags(made))) != vector.unknown_tags:
        found.append(f"unknown tags: ours {tags}, Java's {vector.unknown_tags}")
    if (again := made.encode(version)) != vector.data:
        found.append(f"ours encodes to {again.hex()}, Java to {vector.data.hex()}")
    return [f"{vector}: {line}" for line in found]


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_every_value_is_decoded_as_java_wrote_it(message: type[Message], vectors: Vectors) -> None:
    """The vectors set all fields of all versions, and have nulls where possible."""
    seen: Seen = {}
    assert not [fault for vector in vectors[message.__name__] for fault in faults(vector, seen)]
    for version, kinds in seen.items():
        assert set(to_be_seen(message, version)) - kinds == set()


def test_java_has_every_version_except_the_listed_ones(vectors: Vectors) -> None:
    covered = {(name, exceptions.version_here(vector)) for name, found in vectors.items() for vector in found}
    listed = {(name, v) for name, text in exceptions.UNKNOWN_TO_JAVA.items() for v in numbers(Versions.parse(text))}
    ours = {(message.__name__, version) for message, version in all_versions()}
    assert ours - covered == listed


def test_every_version_of_java_is_declared(vectors: Vectors) -> None:
    covered = {(name, exceptions.version_here(vector)) for name, found in vectors.items() for vector in found}
    assert covered - {(message.__name__, version) for message, version in all_versions()} == set()


def test_every_exception_is_needed(generated: generated_vectors.Generated) -> None:
    old = [vector for vector in generated.vectors if vector.release.startswith("3.")]
    assert set(exceptions.OLD_NAMES) <= {vector.name for vector in old}
    assert {vector.name for vector in old if exceptions.is_redefined(vector) and faults(vector, {})} == set(
        exceptions.REDEFINED
    )
    for name, renamed in exceptions.OLD_FIELDS.items():
        its = [vector for vector in old if exceptions.name_here(vector) == name]
        assert not [field for field in renamed if not any(faults(vector, {}, without=field) for vector in its)]
    renumbered = {(vector.name, vector.version) for vector in old if exceptions.version_here(vector) != vector.version}
    assert renumbered == {(name, v) for name, found in exceptions.RECORD_TYPE_AS_VERSION.items() for v in found}
    assert not [name for name, v in renumbered if v in registry.lookup(name).versions]


def test_header_versions_are_the_same_as_in_java(generated: generated_vectors.Generated) -> None:
    assert generated.headers
    for row in generated.headers:
        request, response = registry.request(row.api_key), registry.response(row.api_key)
        ours = request.header_version(row.version), response.header_version(row.version)
        assert ours == (row.request, row.response), row


def test_differences_are_named(vectors: Vectors) -> None:
    """Each kind of difference is made by changing what Java wrote."""
    right = next(it for it in vectors["MetadataResponse"] if it.version == 12 and it.style == "set0")
    assert faults(right, {}) == []

    def complaint(**changes: Any) -> str:
        wrong = copy.deepcopy(right)
        unknown = changes.pop("unknown", wrong.unknown_tags)
        broker = wrong.values["brokers"][0]
        broker.update(changes)
        return "\n".join(faults(wrong._replace(unknown_tags=unknown), {}))

    assert "MetadataResponse.brokers[].port: ours" in complaint(port=0)
    assert "MetadataResponse.brokers[].port: ours" in complaint(port=True)
    assert "MetadataResponse.brokers[].host: ours" in complaint(host=None)
    assert "MetadataResponse.brokers[].new_thing: we have no such field" in complaint(newThing=1)
    assert "unknown tags: ours []" in complaint(unknown=[{100: b""}])
    shorter = right._replace(values={**right.values, "topics": []})
    assert "elements, Java's 0" in faults(shorter, {})[0]
    lacking = right._replace(values={name: value for name, value in right.values.items() if name != "clusterId"})
    assert faults(lacking, {})[0].endswith("MetadataResponse.cluster_id: Java has no such field")
    assert "left over" in faults(right._replace(data=right.data + b"\0"), {})[0]
