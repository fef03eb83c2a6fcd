"""An archive of Spark's classes. A Java process that maps it doesn't have to load and verify them one by one.

The first session of the tests writes it into ``.cache`` when it ends, which takes 20 seconds of CPU time; later ones
need 4 instead of 8 until they have their first rows. Java ignores an archive of another Java or of other jars.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from functools import cache
from pathlib import Path

from tools.setup.project import CACHE
from tools.setup.system import find_java, java_home

QUIET = "-Xlog:cds*=off"
"""Without it Java reports what it can't put into the archive, or why it can't use the archive."""


def archive_options(*, may_write: bool) -> list[str]:
    """Return the options with which Java takes the archive; if there is none, and it may, Java writes it at its end."""
    archive = archive_file()
    if archive.exists():
        return [QUIET, f"-XX:SharedArchiveFile={archive}"]
    CACHE.mkdir(exist_ok=True)
    return [QUIET, f"-XX:ArchiveClassesAtExit={_unfinished(archive)}"] if may_write and _is_installed() else []


def keep_archive() -> None:
    """Keep the archive that the Java process of this process wrote at its end, if it did, in place of older ones."""
    archive = archive_file()
    unfinished = _unfinished(archive)
    if not unfinished.exists():
        return
    unfinished.rename(archive)
    # Remove the files of processes that were killed, too.
    for other in CACHE.glob(f"{archive.name.rpartition('-')[0]}-*"):
        if other != archive:
            other.unlink(missing_ok=True)


@cache
def archive_file() -> Path:
    """Return the archive for this release of Spark, as it is installed, and this Java."""
    import pyspark

    java = find_java()
    assert java is not None
    (core,) = Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar")
    files = (java_home(java) / "lib" / "modules", core)
    digest = hashlib.sha256(repr([(str(file), file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()
    return CACHE / f"spark-classes-{pyspark.__version__}-{digest[:12]}.jsa"


def _is_installed() -> bool:
    """Whether this environment's own PySpark runs. Other releases have too few sessions for an archive to pay."""
    import pyspark

    return Path(pyspark.__file__).is_relative_to(sysconfig.get_path("purelib"))


def _unfinished(archive: Path) -> Path:
    return archive.with_suffix(f".unfinished-{os.getpid()}")
