"""Which batches a client decompresses."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.records import Compression, decompress


def count_decompressions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of the codec with each batch that a client decompresses."""
    calls: list[str] = []

    def counting(codec: Compression, *args: Any) -> Any:
        calls.append(codec.name)
        return decompress(codec, *args)

    for module in ("records.batch", "fetched.decompressed"):
        monkeypatch.setattr(f"aiokproto.{module}.decompress", counting)
    return calls
