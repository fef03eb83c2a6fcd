"""The verbs and their options, with the help messages."""

from __future__ import annotations

import argparse
from typing import NoReturn

from aiokproto.cli.codec.contents import FORMS

_PROG = "python -m aiokproto.codec"

_DECODE = """\
Decode requests, responses or payloads; prints one JSON document a frame, with field names as in Kafka's definitions.

INPUT is hex, base64, @file or - (standard input); files and standard input may hold hex, base64 or the bytes
themselves. It may be one frame or a stream of them, with or without the 4 bytes of length in front.
"""
_DECODE_EXAMPLES = f"""\
examples:
  {_PROG} decode 00000014000300040000000100056d79617070ffffffff01
  {_PROG} decode @sent.bin
  {_PROG} decode --response --as Metadata:12 @answer.bin
  {_PROG} decode --response --as 7=Metadata:12 --as 8=Fetch:11 @received.bin
  {_PROG} decode --response --requests @sent.bin --records @received.bin
  {_PROG} decode --no-header --as Metadata:4 ffffffff01
  {_PROG} decode --as OffsetCommitKey 000100016700017400000007
"""
_ENCODE = """\
Encode JSON: documents as `decode` prints them, batches as `records` does, one or several, or with --as the body of one
message. Lengths and checksums are computed.

INPUT is the JSON itself, @file, or - (standard input). Prints the frames, one a line.
"""
_ENCODE_EXAMPLES = f"""\
examples:
  {_PROG} encode --as Metadata:4 '{{"topics": null, "allowAutoTopicCreation": true}}'
  {_PROG} decode --records @sent.bin | {_PROG} encode --to binary - > again.bin
  {_PROG} records 00000000000000000000.log | {_PROG} encode --to binary - > again.log
"""
_RECORDS = """\
Open a stored segment (.log), a snapshot (.checkpoint) or any other record set; prints one line of JSON a batch.

What is damaged is shown with its problem, and what follows is read if it can be found. If there was a problem, the
first is repeated on standard error, and the exit code is 1.
"""
_RECORDS_EXAMPLES = f"""\
examples:
  {_PROG} records data/__cluster_metadata-0/00000000000000000000.log
  {_PROG} records --as consumer-offsets segment.log | jq '.records[].value'
  {_PROG} records --from base64 -
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line, like all other errors."""
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser for the command line, which stores the verb as ``verb``."""
    top = _Parser(prog=_PROG, description="The Kafka protocol: look it up, decode and encode it.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    verbs.add_parser("list", help="all APIs and payloads, with their versions")

    show = verbs.add_parser("show", help="the grammar of a version", description="The grammar of one version.")
    _name(show)
    show.add_argument("--explain", action="store_true", help="also say what the message and its fields mean")
    show.add_argument("version", nargs="?", help="version (default: the newest stable one)")
    _kind(show)

    diff = verbs.add_parser("diff", help="what changed between two versions", description="What changed.")
    _name(diff)
    diff.add_argument("old", help="version")
    diff.add_argument("new", help="version")
    _kind(diff)

    _decode(verbs)
    _encode(verbs)
    _records(verbs)

    export = verbs.add_parser(
        "export",
        help="the whole protocol as JSON",
        description="Every API, message, field, version and error code as one JSON document. In a field's default, {} "
        "stands for a struct of defaults; where there is no default, the field must be given.",
    )
    export.add_argument("--indent", type=int, default=1, metavar="N", help="spaces a level (default: %(default)s)")
    return top


def _decode(verbs: argparse._SubParsersAction[_Parser]) -> None:
    decode = verbs.add_parser(
        "decode",
        help="bytes to JSON",
        description=_DECODE,
        epilog=_DECODE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    decode.add_argument("input", metavar="INPUT", help="hex, base64, @file or -")
    _kind(decode)
    decode.add_argument(
        "--as",
        dest="readings",
        action="append",
        default=[],
        metavar="[ID=]NAME:VERSION",
        help="what a response, a body without header or a payload is; ID= says it of one correlation id, and can be "
        "repeated. A payload without :VERSION starts with the bytes that it has in front in records",
    )
    decode.add_argument("--requests", metavar="INPUT", help="the requests that the responses answer, with headers")
    decode.add_argument("--no-header", dest="header", action="store_false", help="it is a body alone")
    records = decode.add_mutually_exclusive_group()
    records.add_argument("--records", action="store_true", help="open record sets (default: show their size)")
    records.add_argument(
        "--records-as", choices=FORMS, metavar="FORM", help=f"open record sets, and keys and values as {_forms()}"
    )
    records.add_argument("--records-base64", action="store_true", help="show record sets whole, as base64")
    decode.add_argument(
        "--from",
        dest="form",
        choices=("auto", "hex", "base64", "binary"),
        default="auto",
        help="form of the input (default: %(default)s)",
    )
    decode.add_argument(
        "--framing",
        choices=("auto", "length", "none"),
        default="auto",
        help="whether frames have their length in front (default: %(default)s)",
    )
    decode.add_argument("--lines", action="store_true", help="one line a document")


def _encode(verbs: argparse._SubParsersAction[_Parser]) -> None:
    encode = verbs.add_parser(
        "encode",
        help="JSON to bytes",
        description=_ENCODE,
        epilog=_ENCODE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    encode.add_argument("input", metavar="INPUT", help="JSON, @file or -")
    _kind(encode)
    encode.add_argument("--as", dest="reading", metavar="NAME:VERSION", help="what a body is")
    encode.add_argument("--correlation-id", type=int, default=0, metavar="ID", help="for a body's header (default: 0)")
    encode.add_argument("--client-id", default=None, metavar="NAME", help="for a body's header (default: null)")
    encode.add_argument("--no-header", dest="header", action="store_false", help="write the body alone")
    encode.add_argument("--no-length", dest="length", action="store_false", help="no length in front of the header")
    encode.add_argument(
        "--to", choices=("hex", "base64", "binary"), default="hex", help="form of the output (default: %(default)s)"
    )


def _records(verbs: argparse._SubParsersAction[_Parser]) -> None:
    records = verbs.add_parser(
        "records",
        help="a log segment or record set to JSON",
        description=_RECORDS,
        epilog=_RECORDS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    records.add_argument("file", metavar="FILE", help="file (also as @file), or - for standard input")
    records.add_argument(
        "--as",
        dest="form",
        choices=FORMS,
        metavar="FORM",
        help=f"what keys and values are: {_forms()} (default: what the name of the file's folder says, else plain)",
    )
    records.add_argument(
        "--from",
        dest="encoding",
        choices=("binary", "hex", "base64"),
        default="binary",
        help="form of the input (default: %(default)s)",
    )


def _forms() -> str:
    return f"{', '.join(FORMS[:-1])} or {FORMS[-1]}"


def _name(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("name", help="API by name or ApiKey (Metadata, 3), or message (MetadataRequest, OffsetCommitKey)")


def _kind(verb: argparse.ArgumentParser) -> None:
    kind = verb.add_mutually_exclusive_group()
    kind.add_argument("--request", action="store_true", help="the request of the API")
    kind.add_argument("--response", action="store_true", help="the response of the API")
