"""A server of Spark Connect on the loopback interface, in a process of its own: its clients have no JVM."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pyspark

from esp.testing.ports import free_port
from tests.integration.spark.session import QUICK_START

HOST: Final = "127.0.0.1"
ROOT: Final = Path(__file__).parents[3]
"""PySpark finds ``format("esp")`` in its Python's path; its processes under Connect work in directories of their sessions."""

_START_TIMEOUT_S: Final = 120.0


class ConnectServer:
    """Runs until :meth:`stop`; its log and its scratch files are below ``directory``.

    Attributes:
        url: where clients connect.
    """

    def __init__(self, directory: Path) -> None:
        port = free_port()
        self.url = f"sc://{HOST}:{port}"
        self._log = directory / "server.log"
        home = os.path.dirname(pyspark.__file__)
        settings = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.local.dir": str(directory),
            "spark.log.level": "WARN",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": f"{QUICK_START} -XX:-UsePerfData -Djava.io.tmpdir={directory}",
        }
        command = [
            *(os.path.join(home, "bin", "spark-submit"), "--master", "local[2]"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *(f"--conf={name}={value}" for name, value in settings.items()),
            "spark-internal",
        ]
        environment = {
            **os.environ,
            "SPARK_HOME": home,
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=ROOT
            )
        try:
            self._wait(port)
        except BaseException:
            self.stop()
            raise

    def log(self) -> str:
        """The end of what the server has logged."""
        return self._log.read_text(errors="replace")[-10_000:]

    def stop(self) -> None:
        """End the server."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                socket.create_connection((HOST, port), 1).close()
            except OSError:
                assert self._process.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.1)
            else:
                return
