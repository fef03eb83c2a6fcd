"""The tool ends with documents or with one line, for any input."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.cli.codec.main import main
from aiokproto.codec.frames import encode_request
from aiokproto.codec.registry import api_keys, request
from tests.codec.fill import fill


def ends_well(*arguments: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    assert code in (0, 1, 2)
    assert err.getvalue().count("\n") == (code > 0)
    assert err.getvalue() == "" or err.getvalue().startswith("error: ")


@pytest.mark.parametrize(
    "options",
    [[], ["--records"], ["--response", "--as", "Fetch:11", "--records"], ["--no-header", "--as", "Metadata:9"]],
)
@given(data=st.binary(max_size=80))
@settings(deadline=None)
def test_random_bytes(options: list[str], data: bytes) -> None:
    ends_well("decode", *options, data.hex())


@given(key=st.sampled_from(api_keys()), seed=st.integers(0, 99), where=st.integers(0), byte=st.integers(0, 255))
@settings(deadline=None)
def test_a_frame_with_one_wrong_byte(key: int, seed: int, where: int, byte: int) -> None:
    version = request(key).versions.highest
    made: Any = fill(request(key), version, seed)
    frame = encode_request(made, version, 1, "client")
    frame[where % len(frame)] = byte
    ends_well("decode", "--records", frame.hex())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["topics", "name", "x"]), inner),
    max_leaves=6,
)


@given(
    document=st.dictionaries(st.sampled_from(["topics", "request", "version", "header", "body", "prefix"]), json_values)
)
@settings(deadline=None)
def test_random_json(document: Any) -> None:
    ends_well("encode", json.dumps(document))
    ends_well("encode", "--as", "Metadata:12", json.dumps(document))
    ends_well("encode", json.dumps({"request": "Metadata", "version": 12, "body": document}))
    ends_well("encode", json.dumps({"request": "Metadata", "version": 12, "body": {"topics": []}} | document))
