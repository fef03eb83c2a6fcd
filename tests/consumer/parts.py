"""Parts of a consumer that tests use without the others."""

from __future__ import annotations

from typing import Any


class EngineStub:
    """Stands in for the engine of an assignment and a reader: it allows everything, and does nothing."""

    def __init__(self) -> None:
        self.cluster: Any = self

    def assignment_changed(self, cursors: Any = ()) -> None:
        pass

    def records_arrived(self) -> None:
        pass

    def buffer_has_room(self) -> None:
        pass

    def position_reset(self, event: object) -> None:
        pass

    def check(self) -> None:
        pass

    def admit(self, use: object) -> None:
        pass

    def run_in_thread(self, work: Any) -> Any:
        raise AssertionError("all batches are small")
