"""A Spark of two executors on this machine, for tests and benchmarks; needs pyspark and a Java."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["session"]

_JAVA = Path("/usr/lib/jvm/java-17-openjdk-amd64")


@contextmanager
def session(memory: int = 2048) -> Iterator[Any]:
    """Yield a session with two executors, of a core and this many MiB each; killed ones are started again."""
    import pyspark
    from pyspark.sql import SparkSession

    if _JAVA.exists():  # a newer one, which may be the default, is not supported
        os.environ["JAVA_HOME"] = str(_JAVA)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of the executors: arcwise decodes bodies there
    with tempfile.TemporaryDirectory(prefix="arcwise-spark-") as folder:
        spark = (
            SparkSession.builder.master(f"local-cluster[2,1,{memory}]")
            .config("spark.executor.memory", f"{memory}m")
            .config("spark.task.maxFailures", 8)
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", 4)
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.local.dir", folder)
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        finally:
            work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
            spark.stop()
            shutil.rmtree(work, ignore_errors=True)
