"""The guards that are removed one by one are still where the table says."""

from __future__ import annotations

import pytest

from tests.simulation.guards import MUTANTS, Mutant
from tools.setup.project import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_guard_is_in_its_file_once(mutant: Mutant) -> None:
    text = (ROOT / "src" / "aiokproto" / mutant.file).read_text()
    assert text.count(mutant.guard) == 1
    assert mutant.guard != mutant.without
