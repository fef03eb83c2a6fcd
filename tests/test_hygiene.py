"""The checks of what a test leaves behind are the tests' own safety net, so each is shown to catch something."""

from __future__ import annotations

from pathlib import Path

import pytest

CASES = {
    "a task left running": (
        """
        async def test():
            global task
            task = asyncio.create_task(asyncio.Event().wait())
        """,
        "tasks still running",
    ),
    "a task that failed unseen": (
        """
        async def fail():
            raise ValueError("unseen")
        async def test():
            task = asyncio.create_task(fail())
            await asyncio.wait([task])
        """,
        "unseen",
    ),
    "an error in a callback": (
        """
        async def test():
            asyncio.get_running_loop().call_soon(lambda: 1 / 0)
            await asyncio.sleep(0)
        """,
        "ZeroDivisionError",
    ),
    "an error in a loop of another thread": (
        """
        async def callback_fails():
            asyncio.get_running_loop().call_soon(lambda: 1 / 0)
            await asyncio.sleep(0)
        def test():
            thread = threading.Thread(target=asyncio.run, args=(callback_fails(),))
            thread.start()
            thread.join()
        """,
        "ZeroDivisionError",
    ),
    "a coroutine never awaited": (
        """
        async def test():
            asyncio.sleep(0)
        """,
        "never awaited",
    ),
    "a transport never closed": (
        """
        async def test():
            server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
            await asyncio.open_connection(*server.sockets[0].getsockname())
            server.close()
        """,
        "unclosed",
    ),
    "a socket never closed": (
        """
        async def test():
            socket.socket()
        """,
        "unclosed",
    ),
    "a thread left running": (
        """
        end = threading.Event()
        def test():
            threading.Thread(target=end.wait).start()
        def teardown_module():
            end.set()
        """,
        "threads still running",
    ),
}


@pytest.mark.parametrize(("code", "complaint"), CASES.values(), ids=CASES.keys())
def test_what_a_test_leaves_behind_fails_it(pytester: pytest.Pytester, code: str, complaint: str) -> None:
    result = run_inner(pytester, code)
    # The result isn't always "tests failed": on Python 3.10 a closed loop keeps its transports, and the end of the run
    # reports them.
    assert result.ret != pytest.ExitCode.OK
    assert complaint in f"{result.stdout}{result.stderr}"


def test_a_tidy_test_passes(pytester: pytest.Pytester) -> None:
    code = """
        async def test():
            task = asyncio.create_task(asyncio.Event().wait())
            await asyncio.to_thread(int)
            task.cancel()
        """
    assert run_inner(pytester, code).ret == pytest.ExitCode.OK


def run_inner(pytester: pytest.Pytester, code: str) -> pytest.RunResult:
    """Run a test file with the plugin in another process: a leak here must not count against the outer test."""
    pytester.makeini("[pytest]\nasyncio_mode=auto\nfilterwarnings=error\nasyncio_default_fixture_loop_scope=function\n")
    body = pytester.path / "test_inner.py"
    lines = [line.removeprefix(" " * 8) for line in code.splitlines()]
    body.write_text("\n".join(["import asyncio, socket, threading", *lines]))
    pytester.plugins = ["tests.hygiene"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", body)
