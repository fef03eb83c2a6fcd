"""Both forms of something that has a compiled form, for tests that hold for each."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.accelerator import forms

not_compiled = pytest.mark.skip(reason="the accelerator is not in use: it was not compiled, or is turned off")


def each_form(module: str, name: str) -> list[Any]:
    """Parameters ``pure`` and ``compiled``; the second is skipped, visibly, where the accelerator is not in use."""
    found = forms(module, name)
    compiled = found.get("compiled")
    return [
        pytest.param(found["pure"], id="pure"),
        pytest.param(compiled, id="compiled", marks=[not_compiled] if compiled is None else []),
    ]
