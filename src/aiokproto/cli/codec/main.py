"""The command line: produces each verb's output, and reports errors as one line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aiokproto.cli.codec.contents import PLAIN, form_of_folder
from aiokproto.cli.codec.decoding import (
    Answers,
    Reading,
    body_document,
    documents,
    fits,
    is_request,
    parse_reading,
    request_document,
    response_document,
)
from aiokproto.cli.codec.diff import changes
from aiokproto.cli.codec.encoding import Wanted, encode_document, read_json
from aiokproto.cli.codec.grammar import common, grammar, meaning
from aiokproto.cli.codec.inputs import Frame, read_bytes, split
from aiokproto.cli.codec.names import InputError, Target, ToolError, UsageError, checked_version, find, newest
from aiokproto.cli.codec.options import parser
from aiokproto.cli.codec.record_sets import open_batches, problems, records_opened
from aiokproto.cli.codec.reference import reference
from aiokproto.cli.main import interruptible
from aiokproto.codec.json import RecordsForm, records_as_base64, records_as_size
from aiokproto.codec.registry import api_keys, api_name, lookup, payload_names, request
from aiokproto.codec.schema import Message
from aiokproto.errors import KafkaError


@interruptible
def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb, and return the exit code.

    The exit code is 1 if the input was wrong, and 2 if the command line was. In both cases, one line is written to
    standard error.
    """
    options = parser().parse_args(argv)
    try:
        for text in _VERBS[options.verb](options):
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Without this, Python would flush once more at exit and print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KafkaError, ToolError, OSError) as error:
        sys.stdout.flush()
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return 2 if isinstance(error, UsageError) else 1
    return 0


def _list(options: argparse.Namespace) -> Iterator[str]:
    yield f"{'key':>4}  {'API':<40}{'versions':<10}{'flexible':<10}{'unstable':<10}goes to\n"
    for key in api_keys():
        message = request(key)
        yield f"{key:>4}  {api_name(key):<40}{_ranges(message)}{message.route.value}\n"
    yield f"\n{'':>4}  {'payload':<40}{'versions':<10}{'flexible':<10}unstable\n"
    for name in payload_names():
        yield f"{'':>4}  {name:<40}{_ranges(lookup(name)).rstrip()}\n"


def _ranges(message: type[Message]) -> str:
    texts = (str(common(versions, message.versions)) for versions in (message.versions, message.flexible))
    shown = [*texts, str(message.unstable)]
    return "".join(f"{'-' if text == 'none' else text:<10}" for text in shown)


def _show(options: argparse.Namespace) -> Iterator[str]:
    yield from _joined(_show_message(message, options) for message in _chosen(options))


def _show_message(message: type[Message], options: argparse.Namespace) -> str:
    version = newest(message) if options.version is None else checked_version(message, options.version)
    texts = meaning(message, version) if options.explain else ""
    return grammar(message, version) + (f"\n{texts}" if texts else "")


def _diff(options: argparse.Namespace) -> Iterator[str]:
    yield from _joined(
        _diff_of(message, checked_version(message, options.old), checked_version(message, options.new))
        for message in _chosen(options)
    )


def _diff_of(message: type[Message], old: int, new: int) -> str:
    found = [f"  {change}\n" for change in changes(message, old, new)] or ["  no difference\n"]
    return "".join([f"{message.__name__} {old} → {new}\n", *found])


def _joined(texts: Iterator[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"\n{text}" if number else text


def _chosen(options: argparse.Namespace) -> list[type[Message]]:
    target: Target = find(options.name)
    if options.request or options.response:
        return [target.request() if options.request else target.response()]
    return list(target.messages)


def _export(options: argparse.Namespace) -> Iterator[str]:
    yield json.dumps(reference(), indent=options.indent, ensure_ascii=False) + "\n"


def _decode(options: argparse.Namespace) -> Iterator[str]:
    readings: dict[int | None, Reading] = dict(parse_reading(text) for text in options.readings)
    decode, is_bare, bare_first = _decoder(options, readings)
    # A payload has no length of its own: the record or field that contains it does.
    default = readings.get(None)
    framing = "none" if default is not None and default.target.api_key is None else options.framing
    data = read_bytes(options.input, options.form)
    # An empty body is valid: some requests have no fields.
    frames = (
        split(data, framing, is_bare, bare_first=bare_first) if data or not bare_first else [Frame(0, memoryview(b""))]
    )
    for document in documents(frames, decode):
        yield json.dumps(document, indent=None if options.lines else 2, ensure_ascii=False) + "\n"


def _decoder(
    options: argparse.Namespace, readings: dict[int | None, Reading]
) -> tuple[Callable[[memoryview], dict[str, Any]], Callable[[memoryview], bool], bool]:
    """Return a function that decodes a frame, a function that checks whether bytes are a valid frame without a length,
    and whether frames have no header."""
    records: RecordsForm = records_as_size
    if options.records or options.records_as:
        records = records_opened(options.records_as or PLAIN)
    elif options.records_base64:
        records = records_as_base64
    default = readings.get(None)

    def bare(data: memoryview) -> dict[str, Any]:
        assert default is not None
        return body_document(data, default, options.response, records)

    if not options.header or (default is not None and default.target.api_key is None):
        if default is None:
            raise UsageError("without a header, --as NAME:VERSION must say what it is")
        return bare, lambda data: fits(bare, data), True
    if options.response:
        answers = Answers(readings)
        if options.requests is not None:
            answers.sent(read_bytes(options.requests, options.form))
        # Checking a frame must not use up the readings from the requests' stream.
        check_answers = Answers(readings)
        return (
            lambda frame: response_document(frame, answers, records),
            lambda frame: fits(lambda data: response_document(data, check_answers, records), frame),
            False,
        )
    if readings:
        raise UsageError("a request's header says what it is: --as goes with --no-header or --response")
    return lambda frame: request_document(frame, records), is_request, False


def _encode(options: argparse.Namespace) -> Iterator[str]:
    reading = None if options.reading is None else parse_reading(options.reading)[1]
    wanted = Wanted(
        reading,
        options.response,
        header=options.header,
        length=options.length,
        correlation_id=options.correlation_id,
        client_id=options.client_id,
    )
    text = options.input.encode() if options.input[:1] in ("{", "[") else read_bytes(options.input, "binary")
    for number, document in enumerate(read_json(text), 1):
        try:
            data = encode_document(document, wanted)
        except (KafkaError, ToolError) as error:
            kind = UsageError if isinstance(error, UsageError) else InputError
            raise kind(f"document {number}: {error}" if number > 1 else str(error)) from error
        if options.to == "binary":
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            continue
        yield (data.hex() if options.to == "hex" else records_as_base64("", data)[1]) + "\n"


def _records(options: argparse.Namespace) -> Iterator[str]:
    # Segments are always files, so the @ that other verbs require is optional.
    file = options.file.removeprefix("@")
    source = file if file == "-" else f"@{file}"
    form = options.form or form_of_folder(Path(file).resolve().parent.name)
    data = read_bytes(source, options.encoding)
    found: list[str] = []
    for entry in open_batches(data, form):
        found += problems(entry)
        yield json.dumps(entry, ensure_ascii=False) + "\n"
    if found:
        more = f" (and {len(found) - 1} more)" if found[1:] else ""
        raise InputError(f"{found[0]}{more}")


_VERBS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "export": _export,
    "decode": _decode,
    "encode": _encode,
    "records": _records,
}
