"""Which batches a client decompresses."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.records import Compression
from aiokproto.records.compression import chunks, decompress


def count_decompressions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of the codec with each batch that a client decompresses."""
    calls: list[str] = []

    def counting(form: Any) -> Any:
        def counted(codec: Compression, *args: Any) -> Any:
            calls.append(codec.name)
            return form(codec, *args)

        return counted

    for module in ("records.batch", "records.legacy"):
        monkeypatch.setattr(f"aiokproto.{module}.chunks", counting(chunks))
    for module in ("fetched.decompressed", "records.compression"):
        monkeypatch.setattr(f"aiokproto.{module}.decompress", counting(decompress))
    return calls
