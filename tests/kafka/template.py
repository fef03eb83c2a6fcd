"""``python -m tests.kafka.template`` makes the files with which brokers of the newest release start fast.

These are the archive of a broker's classes (`tests.java.starting`), and the storage of a new cluster
(`tests.kafka.storage`), each of which takes a Java process to write. Both are kept with the jars, and are removed with
them. Brokers start without them as well, in twice the time.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.java.starting import OPTIONS, QUICK, archive_of
from tests.kafka.cluster import KafkaCluster
from tests.kafka.storage import IDENTITY, template_of
from tools.setup.project import kafka_jars
from tools.setup.system import find_java


class Formatted(KafkaCluster):
    """A broker whose storage is copied before it starts."""

    def __init__(self, copy: Path, archive: Path) -> None:
        # Java writes the archive when it ends cleanly.
        super().__init__(1, jvm=[f"-XX:ArchiveClassesAtExit={archive}"])
        self._copy = copy

    def _prepare(self) -> None:
        super()._prepare()
        shutil.copytree(self.data_folder(1), self._copy, ignore=shutil.ignore_patterns(IDENTITY))


def main() -> None:
    java, jars = find_java(), kafka_jars()
    assert java is not None, "the set-up has found it"
    archive, template = archive_of(java, jars), template_of(jars)
    for old in jars.glob("classes-*"):
        old.unlink()
    shutil.rmtree(template, ignore_errors=True)
    new_archive, new_template = (path.with_name(f"unfinished-{path.name}") for path in (archive, template))
    shutil.rmtree(new_template, ignore_errors=True)
    new_archive.unlink(missing_ok=True)
    os.environ[OPTIONS] = QUICK
    with Formatted(new_template, new_archive) as cluster:
        cluster.stop_broker(1)
    new_template.rename(template)
    new_archive.rename(archive)


if __name__ == "__main__":
    main()
