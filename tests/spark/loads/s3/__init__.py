"""A fake of S3 that lies on demand, in a process of its own: ``FakeS3``.

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
from tests.patience import PATIENCE

BUCKET = "bucket"


class FakeS3:
    """A running server, which has one bucket.

    Attributes:
        environment: The variables by which clients find it, and have it do as it is told without long pauses.
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
        with urlopen(f"{self._url}/moto-api/", timeout=PATIENCE) as response:
            response.read()

    def tell(self, **orders: object) -> None:
        """Say how to lie from the next request on; see the server. Without any order: not at all."""
        with urlopen(f"{self._url}/-/orders", json.dumps(orders).encode(), timeout=PATIENCE) as response:
            response.read()

    def requests(self) -> list[Any]:
        """What was asked since the last order: method, path, and whether it was to copy."""
        with urlopen(f"{self._url}/-/requests", timeout=PATIENCE) as response:
            found: list[Any] = json.load(response)
        return found


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    """Run one; its process ends with the block, and with this process.

    Skips the test where the package is not to be had.
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
