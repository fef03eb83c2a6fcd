"""Each cell of the table: code of the application misbehaves once, and the library does what the table says.

In each case nothing hangs, no record is lost, and the client is usable afterwards or has failed with a named error.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiokproto.errors import KafkaError
from tests.callbacks.cases import Case, HeldError, Misbehaving, Mute, MuteError, Outcome, StuckError
from tests.callbacks.environment import walked
from tests.callbacks.table import ORDER, TABLE, Callback, Cell, Effect

ROWS = [row for group in TABLE for row in group.rows if row.walk is not None]


def identity(row: Callback) -> str:
    return str(getattr(row.walk, "__name__", row.name))


@pytest.mark.parametrize(
    ("row", "case", "cell"),
    [
        pytest.param(row, case, cell, id=f"{identity(row)}-{case.name.lower()}")
        for row in ROWS
        for case, cell in row.cases()
    ],
)
def test_what_misbehaves_has_the_effect_of_its_cell(
    row: Callback, case: Case, cell: Cell, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "aiokproto"):
        outcome, calls = walk(row, case)
    assert calls, "it was called"
    check(cell, outcome, calls)
    errors = [each.getMessage() for each in caplog.records if each.name.startswith("aiokproto")]
    if cell.effect is Effect.LOGGED:
        assert [each for each in errors if "failed" in each], errors
    if cell.effect is Effect.LEFT:
        assert [each for each in errors if "left alone" in each], errors


def check(cell: Cell, outcome: Outcome, calls: int) -> None:
    """Assert that the outcome is the one in the cell."""
    error, again = outcome
    if cell.effect is Effect.RAISED:
        assert cell.error is not None
        assert isinstance(error, cell.error)
        assert again is None
    elif cell.effect is Effect.ENDED:
        assert cell.error is not None
        assert error is None or isinstance(error, cell.error)
        assert isinstance(again, KafkaError)
    elif cell.effect is Effect.HELD:
        assert isinstance(error or again, HeldError)
        assert again is None or isinstance(again, HeldError)
    elif cell.effect is Effect.LEFT:
        assert error is None or isinstance(error, HeldError)
        assert again is None
    elif cell.effect is Effect.OWN:
        assert isinstance(error, StuckError)
        # The same consumer or session has one reader, which still runs.
        assert again is None or not isinstance(again, HeldError | StuckError)
    elif cell.effect is Effect.STOPPED:
        assert error is None or isinstance(error, asyncio.CancelledError)
        assert again is None
    else:
        assert (error, again) == (None, None)
        assert cell.effect is not Effect.AGAIN or calls > 1


@pytest.mark.parametrize("row", ROWS, ids=identity)
def test_what_ends_the_program_ends_it(row: Callback) -> None:
    with pytest.raises(SystemExit):
        walk(row, Case.ENDS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.cells[0] is not None], ids=identity)
def test_an_exception_without_a_text_has_the_effect_of_any_other(
    row: Callback, caplog: pytest.LogCaptureFixture
) -> None:
    # Format each log line, so that one that can't be formatted raises here.
    with caplog.at_level(logging.DEBUG, "aiokproto"):
        outcome, calls = walk(row, Case.MUTE)
    assert row.cells[0] is not None
    check(row.cells[0], outcome, calls)
    for error in outcome:
        while error is not None:
            assert isinstance(error, MuteError) or str(error) is not None
            error = error.__cause__


@pytest.mark.parametrize("row", [row for row in ROWS if row.wrong is object], ids=identity)
def test_a_wrong_result_without_a_text_has_the_effect_of_any_other(
    row: Callback, caplog: pytest.LogCaptureFixture
) -> None:
    assert row.walk is not None
    with caplog.at_level(logging.DEBUG, "aiokproto"):
        outcome, calls = walked(row.walk, lambda: Misbehaving(Case.WRONG, row.good, Mute), row.security)
    cell = row.cells[ORDER.index(Case.WRONG)]
    assert cell is not None
    check(cell, outcome, calls)


def walk(row: Callback, case: Case) -> tuple[Outcome, int]:
    assert row.walk is not None
    return walked(row.walk, lambda: Misbehaving(case, row.good, row.wrong), row.security)
