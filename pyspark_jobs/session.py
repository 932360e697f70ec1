"""The Spark session that every job builds, and the command-line arguments that choose where it runs.

A local master keeps to the loopback interface and to a scratch directory of its own. Any other master brings its own
network and directories: only what the jobs need (connector, time zone, few shuffle partitions) is set there, and
``--conf`` sets the rest.
"""

import argparse
import atexit
import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
SHUFFLE_PARTITIONS = 4
"""The streams here keep a few hundred groups of state; Spark's default of 200 would be 200 tiny files a batch."""
PYTHON_STARTS_WITHIN = "60s"
"""The time in which a process of Python has to answer that Spark starts for a source of its own, ``esp`` among them. Spark's 15 s are too
short for a busy machine: the import of a source, and its first offsets, are part of it, and the query fails.
"""

_LOG4J2 = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# Each of these warns on every start about something that is as it should be.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
logger.strings.name = org.apache.spark.sql.catalyst.util.SparkStringUtils
logger.strings.level = error
logger.resolve.name = org.apache.spark.sql.execution.streaming.ResolveWriteToStream
logger.resolve.level = error
logger.adminconfig.name = org.apache.kafka.clients.admin.AdminClientConfig
logger.adminconfig.level = error
"""


def add_session_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--master`` and ``--conf`` to the arguments of a job."""
    parser.add_argument(
        "--master", default="local[*]", help="Spark master: local[*], spark://host:7077, yarn, k8s://..."
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=_setting,
        help="a Spark setting; may be given several times",
    )


def build_session(
    app_name: str,
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    has_connector: bool = True,
) -> SparkSession:
    """Return a session on ``master`` that has Spark's Kafka source and sink, unless it shall do without that connector.

    The first session of a machine downloads the connector, later ones find it in Ivy's cache. ``conf`` wins over what is
    set here; ``java_options`` are added to the driver's. The scratch directory goes when the process ends; a process that is
    killed leaves it behind in ``TMPDIR``.

    Raises:
        SystemExit: there is no Java.
    """
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise SystemExit("Spark needs Java 17 or later: install it, or set JAVA_HOME.")
    scratch = tempfile.mkdtemp(prefix="esp-spark-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    log4j2 = os.path.join(scratch, "log4j2.properties")
    with open(log4j2, "w", encoding="utf-8") as file:
        file.write(_LOG4J2)
    options = [f"-Dlog4j2.configurationFile={log4j2}", f"-Djava.io.tmpdir={scratch}", "-XX:-UsePerfData", *java_options]
    settings = {
        **({"spark.jars.packages": KAFKA_CONNECTOR} if has_connector else {}),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.python.authenticate.socketTimeout": PYTHON_STARTS_WITHIN,
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(options),
    }
    if master.startswith("local"):
        # else Spark's Python processes, which plan and read the source esp, are of the first python3 in PATH
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings["spark.local.dir"] = scratch
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    settings |= conf or {}
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _one_start_at_a_time():
        return builder.getOrCreate()


@contextlib.contextmanager
def _one_start_at_a_time() -> Iterator[None]:
    """Keep the sessions that this user starts at once from filling Ivy's cache together: it breaks, and both fail.

    The lock is on the home directory itself, so that it leaves no file behind.
    """
    home = os.open(os.path.expanduser("~"), os.O_RDONLY)
    try:
        fcntl.flock(home, fcntl.LOCK_EX)
        yield
    finally:
        os.close(home)


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value
