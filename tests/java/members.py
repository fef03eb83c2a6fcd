"""Java's consumers as members of groups: the program in ``groups``, one process for all members of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiokproto.types import TopicPartition
from tests.java import compiler
from tests.timeouts import LONG_TIMEOUT

PROGRAM = compiler.PROGRAMS / "groups" / "Members.java"


class JavaMembers:
    """Members of groups, by name.

    Attributes:
        assigned: The last assignment of each member. Members that have left are absent.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.assigned: dict[str, set[TopicPartition]] = {}
        self._process = process
        self._stopped: dict[str, asyncio.Event] = {}

    def start(self, name: str, servers: str, group: str, assignors: Sequence[str], topics: Sequence[str]) -> None:
        """Start a member."""
        self.assigned[name] = set()
        self._stopped[name] = asyncio.Event()
        self._tell(f"start {name} {servers} {group} {','.join(assignors)} {','.join(topics)}")

    async def stop(self, name: str) -> None:
        """Let a member leave its group."""
        self._tell(f"stop {name}")
        await asyncio.wait_for(self._stopped[name].wait(), LONG_TIMEOUT)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def read(self) -> None:
        """Collect what the members write, until they end."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            name, *words = line.decode().split()
            assert "failed" not in words, line
            if words == ["stopped"]:
                del self.assigned[name]
                self._stopped[name].set()
            else:
                parts = (word.rpartition("-") for word in words)
                self.assigned[name] = {TopicPartition(topic, int(number)) for topic, _, number in parts}


@asynccontextmanager
async def java_members() -> AsyncIterator[JavaMembers]:
    """Run the program; its members leave their groups in the end."""
    process = await asyncio.create_subprocess_exec(
        *compiler.command(PROGRAM, "Members", compiler.SILENT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    members = JavaMembers(process)
    reading = asyncio.create_task(members.read())
    try:
        yield members
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(reading, LONG_TIMEOUT)
    finally:
        reading.cancel()
        if process.returncode is None:
            process.kill()
        await process.wait()
