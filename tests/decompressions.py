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

    monkeypatch.setattr("aiokproto.records.batch.chunks", counting(chunks))
    monkeypatch.setattr("aiokproto.fetched.decompressed.decompress", counting(decompress))
    return calls
