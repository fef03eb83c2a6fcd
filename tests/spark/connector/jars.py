"""The jars of Spark's own connector."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fetching import fetched, maven_copy_dependencies

POM = Path(__file__).with_name("pom.xml")


def fetched_connector() -> Path:
    """The folder with the connector and what it depends on; see :func:`tests.fetching.fetched`."""
    match = re.search(r"<connector\.version>(.+?)</connector\.version>", POM.read_text())
    assert match is not None, "the pom names the release"
    return fetched(f"spark-connector-{match[1]}", maven_copy_dependencies(POM))
