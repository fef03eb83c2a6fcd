"""``python -m benchmarks.spark.payloads``: decoding JSON columns, without Spark and Kafka; CPU microseconds a row.

A row of the table is a form in which producers write JSON. Arrow reads those that cost about as much as the first one;
Python parses the rows of the others, which takes some microseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from aiokproto.spark.payloads.ddl import parse_schema
from aiokproto.spark.payloads.json_format import json_decoder
from benchmarks.tables import Table, console, show

SCHEMA = "id INT, name STRING, created TIMESTAMP"


@dataclass(frozen=True)
class Form:
    """A form of rows.

    Attributes:
        name: For the table.
        schema: The columns.
        fields: What differs from plain rows, in all of them.
        sometimes: What differs in each second row alone.
        end: What follows each document.
    """

    name: str
    schema: str = SCHEMA
    fields: Mapping[str, Any] = field(default_factory=dict)
    sometimes: Mapping[str, Any] = field(default_factory=dict)
    end: bytes = b""

    def rows(self, count: int) -> list[bytes]:
        """Return so many rows."""
        return [self._row(number) for number in range(count)]

    def _row(self, number: int) -> bytes:
        plain = {"id": number, "name": "UA", "created": "2013-01-01T05:00:00Z"}
        return json.dumps({**plain, **self.fields, **(self.sometimes if number % 2 else {})}).encode() + self.end


FORMS = (
    Form("plain"),
    Form("a time that is null in all rows", f"{SCHEMA}, deleted TIMESTAMP", {"deleted": None}),
    Form("a time that no row has", f"{SCHEMA}, deleted TIMESTAMP"),
    Form("nanoseconds", fields={"created": "2013-01-01T05:00:00.123456789Z"}),
    Form("nanoseconds without a zone", "created TIMESTAMP_NTZ", {"created": "2013-01-01T05:00:00.123456789"}),
    Form("with and without a zone", sometimes={"created": "2013-01-01T05:00:00"}),
    Form("without a zone", fields={"created": "2013-01-01T05:00:00"}),
    Form("a number for a STRING", fields={"name": 1.5}),
    Form("a boolean for a STRING in some rows", sometimes={"name": True}),
    Form("line ends", end=b"\n"),
    Form("line ends of Windows", end=b"\r\n"),
)
"""The forms that Arrow reads."""

PARSED = (
    Form("seconds since 1970 for a TIMESTAMP", fields={"created": 1357016400}),
    Form("seconds since 1970 in some rows", sometimes={"created": 1357016400}),
    Form("an object for a STRING", fields={"name": {"carrier": "UA"}}),
    Form("an object for a STRING in some rows", sometimes={"name": {"carrier": "UA"}}),
    Form("a string for an INT", fields={"id": "5"}),
    Form("a string for an INT in some rows", sometimes={"id": "5"}),
    Form("a map", f"{SCHEMA}, counts MAP<STRING, INT>", {"counts": {"UA": 1}}),
    Form("a decimal", f"{SCHEMA}, price DECIMAL(10, 2)", {"price": 1.5}),
)
"""The forms that Python parses."""


def us(form: Form, count: int, rounds: int) -> float:
    """Return the lowest CPU time of a row."""
    decode = json_decoder(parse_schema("value.schema", form.schema))
    column = pa.array(form.rows(count), pa.binary())
    found = []
    for _ in range(rounds):
        began = time.process_time()
        decode(column)
        found.append(time.process_time() - began)
    return min(found) / count * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.payloads", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="of a batch (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default %(default)s)")
    arguments = parser.parse_args()
    rows = [(form.name, f"{us(form, arguments.rows, arguments.rounds):.2f}") for form in (*FORMS, *PARSED)]
    show(console(), Table("Decoding JSON columns", ("rows", "CPU µs a row"), rows, ["CPU µs a row"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
