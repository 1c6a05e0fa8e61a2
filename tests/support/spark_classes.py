"""Archive Spark's classes, for JVMs of tests to start with: python -m support.spark_classes.

A JVM reads, checks and links some ten thousand classes until a stream runs, and spends more than a
third of its processor time on that. With an archive of them it does not; ``make test-spark`` makes
one. Where there is none, or it does not fit, tests only take longer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from support import faulty, spark_session


def make(archive: Path) -> None:
    """Run a short stream in a JVM that writes an archive of its classes when it ends."""
    from pyspark import SparkContext

    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        aside = Path(folder) / archive.name
        # Without a log: the JVM warns of every class that it cannot archive.
        options = f"-XX:ArchiveClassesAtExit={aside} -Xlog:disable"
        spark_session.local_session(**{"spark.driver.extraJavaOptions": options})
        faulty.write_inputs(Path(folder), ["shards"], 2)
        faulty.main(Path(folder), ["shards"])  # in the session that there is
        gateway: Any = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()  # at which the JVM ends
        assert gateway.proc.wait(timeout=1_200) == 0
        aside.replace(archive)


if __name__ == "__main__":
    if why := spark_session.missing():
        sys.exit(why)
    make(spark_session.CLASSES)
