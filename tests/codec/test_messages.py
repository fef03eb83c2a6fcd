"""Every message in every version: there and back, cut short, and with hostile lengths."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from aiokproto.codec.registry import api_keys, lookup, request
from aiokproto.codec.schema import Message
from aiokproto.errors import DecodeError
from tests.codec.fill import all_messages, all_versions, fill

MESSAGES = all_messages()
OTHER_VERSIONS = 143
"""Versions of headers and payloads."""


def versions(message: type[Message]) -> range:
    return range(message.versions.lowest, message.versions.highest + 1)


def refusal(message: type[Message], data: bytearray, version: int) -> str:
    """Return the text of the error that decoding raises; empty if the bytes are valid."""
    try:
        message.decode(data, version)
    except DecodeError as error:
        return str(error)
    return ""


def test_every_api_is_declared(tally: Counter[str]) -> None:
    tally["ApiKeys"] = len(api_keys())
    tally["pairs of request and response"] = sum(len(versions(request(key))) for key in api_keys())
    tally["message-versions"] = len(all_versions())
    assert api_keys() == list(range(95))
    assert sum(len(versions(request(key))) for key in api_keys()) == 368
    assert len(MESSAGES) == 292
    assert len(all_versions()) == 368 * 2 + OTHER_VERSIONS


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.__name__)
def test_round_trip(message: type[Message]) -> None:
    for version in versions(message):
        for seed in range(6):
            made = fill(message, version, seed)
            data = made.encode(version)
            back = message.decode(data, version)
            assert back == made
            assert back.encode(version) == data


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.__name__)
def test_zero_values_round_trip(message: type[Message]) -> None:
    for version in versions(message):
        zero = message()
        assert message.decode(zero.encode(version), version) == zero


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.__name__)
def test_every_truncation_is_refused(message: type[Message], tally: Counter[str]) -> None:
    for version in versions(message):
        data = fill(message, version, seed=7).encode(version)
        tally["truncated messages"] += len(data)
        for size in range(len(data)):
            with pytest.raises(DecodeError, match=f"{message.__name__} v{version}"):
                message.decode(data[:size], version)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.__name__)
def test_trailing_bytes_are_reported(message: type[Message]) -> None:
    for version in versions(message):
        data = fill(message, version, seed=8).encode(version)
        with pytest.raises(DecodeError, match="3 bytes left over"):
            message.decode(data + b"abc", version)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: m.__name__)
def test_mutations_decode_or_are_refused_by_name(message: type[Message], tally: Counter[str]) -> None:
    rng = random.Random(message.__name__)
    for version in versions(message):
        data = bytearray(fill(message, version, seed=9).encode(version))
        for _ in range(40):
            if not data:
                break
            mutant = bytearray(data)
            at = rng.randrange(len(mutant))
            extreme = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", rng.randbytes(1)))
            mutant[at : at + len(extreme)] = extreme
            tally["mutated messages"] += 1
            assert "cannot be decoded" not in refusal(message, mutant, version)


def test_lookup_by_kafkas_own_name() -> None:
    assert lookup("MetadataRequest").__name__ == "MetadataRequest"
    assert lookup("EndTxnMarker").__module__ == "aiokproto.codec.payloads.control_records"
    with pytest.raises(KeyError, match=r"no message is called 'Nothing'\"$"):
        lookup("Nothing")


@pytest.mark.parametrize(
    ("mistaken", "meant"),
    [
        ("MetaDataRequest", "MetadataRequest"),
        ("fetchresponse", "FetchResponse"),
        ("OffsetComitKey", "OffsetCommitKey"),
        ("CreateTopicRequest", "CreateTopicsRequest"),
    ],
)
def test_a_misspelt_name_has_a_suggestion(mistaken: str, meant: str) -> None:
    with pytest.raises(KeyError, match=f"no message is called '{mistaken}': did you mean {meant}?"):
        lookup(mistaken)
