"""A standalone Spark cluster on the loopback interface: a master and workers, each a process of its own."""

import json
import os
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark

from esp.testing.ports import free_port
from tests.integration.spark.session import QUICK_START

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0


class StandaloneCluster:
    """Runs until ``stop``; logs and work directories below ``directory``.

    Args:
        directory: the directory.
        workers: the number of workers.
        are_apart: whether each worker has a host of its own. Spark starts speculative copies on other hosts only.
    """

    def __init__(self, directory: Path, workers: int, *, are_apart: bool = False) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ui_port = free_port()
        port = free_port()
        self.master = f"spark://{HOST}:{port}"
        try:
            self._start("master.Master", HOST, "--port", str(port), "--webui-port", str(self._ui_port))
            self._wait_for_workers(0)
            for number in range(workers):
                self._start(
                    "worker.Worker",
                    f"127.0.0.{number + 1}" if are_apart else HOST,
                    *("--port", str(free_port()), "--webui-port", str(free_port())),
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work-{number}"), self.master),
                )
            self._wait_for_workers(workers)
        except BaseException:
            self.stop()
            raise

    def state(self) -> dict[str, Any]:
        """What the master says of its workers and applications."""
        with urllib.request.urlopen(f"http://{HOST}:{self._ui_port}/json/", timeout=10) as answer:
            return json.load(answer)

    def executors(self) -> list[int]:
        """The processes of the executors that the workers have now."""
        workers = {process.pid for process in self._processes[1:]}
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # a process that has ended meanwhile
                parent = int(path.read_text().rpartition(")")[2].split()[1])
                if parent in workers:
                    found.append(int(path.parent.name))
        return found

    def stop(self) -> None:
        """End every process, workers first."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, role: str, host: str, *arguments: str) -> None:
        home = os.path.dirname(pyspark.__file__)
        program = os.path.join(home, "bin", "spark-class")
        command = [program, f"org.apache.spark.deploy.{role}", "--host", host, *arguments]
        scratch = self._directory / "scratch"
        scratch.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "SPARK_HOME": home,
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData {QUICK_START}",
        }
        with open(self._directory / "daemons.log", "ab") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                if self.state()["aliveworkers"] >= count:
                    return
            except (OSError, json.JSONDecodeError):
                pass  # the master does not listen yet, or its page is served before its state
            assert time.monotonic() < deadline, (self._directory / "daemons.log").read_text()[-5000:]
            time.sleep(0.1)
