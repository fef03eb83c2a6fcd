"""A fake of S3 that injects faults, in a process of its own: ``FakeS3``.

moto needs another botocore than s3fs does, so it is installed beside the project's own environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.fetching import fetched
from tests.timeouts import LONG_TIMEOUT

BUCKET = "bucket"


class FakeS3:
    """A running server, which has one bucket.

    Attributes:
        environment: Variables with which clients find the server, and retry without long pauses.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        self.environment: Mapping[str, str] = {
            "AWS_ENDPOINT_URL": self._url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "2",
            "AWS_RETRY_MODE": "standard",
        }
        with urlopen(f"{self._url}/moto-api/", timeout=LONG_TIMEOUT) as response:
            response.read()

    def inject(self, **faults: object) -> None:
        """Inject these faults, and no others, from the next request on, which is number 0; see the server."""
        with urlopen(f"{self._url}/-/faults", json.dumps(faults).encode(), timeout=LONG_TIMEOUT) as response:
            response.read()

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.inject()

    def requests(self) -> list[Any]:
        """The requests since faults were set: method, path, and whether it was a copy."""
        with urlopen(f"{self._url}/-/requests", timeout=LONG_TIMEOUT) as response:
            found: list[Any] = json.load(response)
        return found


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    """Run one; its process ends with the block, and with this process.

    Skips the test if the package is not available.
    """
    command = [str(_python()), str(Path(__file__).with_name("server.py")), BUCKET]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield FakeS3(process)
        finally:
            process.kill()


def _python() -> Path:
    """The interpreter of an environment that has moto."""
    return fetched("moto-5", _environment) / "bin" / "python"


def _environment(folder: Path) -> list[list[str]]:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [[sys.executable, "-m", "venv", str(folder)], [*pip, "moto[server]>=5.1,<6"]]
