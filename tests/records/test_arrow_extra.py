"""The error without the ``arrow`` extra says what to install."""

from __future__ import annotations

import sys

import pytest

from aiokproto.consumer.batch import FetchedBatch
from aiokproto.records.arrow_extra import require_arrow
from aiokproto.types import TopicPartition


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
def test_a_missing_library_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf'{missing} is not installed: pip install "aiokproto\[arrow\]"'):
        require_arrow()
    with pytest.raises(ImportError, match=rf"{missing} is not installed"):
        FetchedBatch(TopicPartition("t", 0), 0, 0, []).to_arrow()
