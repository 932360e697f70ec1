"""A process of ``esp`` with ``--secure``, and the settings of clients that it has written."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from esp.settings.properties import parse_properties
from tests.integration.conftest import eventually


class Secure:
    """A process of ``esp``, whose output is in a file, with the directory of its protection."""

    def __init__(self, directory: Path, security: Path, port: int, *command: str) -> None:
        self.security = security
        self.bootstrap = f"127.0.0.1:{port}"
        self.output_path = directory / "output"
        self._command = [sys.executable, "-m", "esp", *command]
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Secure":
        with self.output_path.open("wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, cwd=self._directory)
        eventually(lambda: "ready " in self.output or self._process.poll() is not None, 60)
        assert "ready " in self.output, self.output
        return self

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0, self.output

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def output(self) -> str:
        return self.output_path.read_text()

    def run(self, *arguments: str, stdin: str = "", config: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command, as the administrator unless a file of another client's settings is given."""
        told = {
            "ESP_BOOTSTRAP_SERVER": self.bootstrap,
            "ESP_COMMAND_CONFIG": str(config or self.security / "admin" / "client.properties"),
        }
        return subprocess.run(
            [sys.executable, "-m", "esp", *arguments],
            env=os.environ | told,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def password(self) -> str:
        return (self.security / "admin" / "password").read_text().strip()

    def kafka_python(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads((self.security / "admin" / "kafka-python.json").read_text())
        return settings

    def librdkafka(self) -> dict[str, Any]:
        text = (self.security / "admin" / "librdkafka.properties").read_text()
        return {each.name: each.value for each in parse_properties(text)}

    def spark(self) -> dict[str, str]:
        settings: dict[str, str] = json.loads((self.security / "admin" / "spark.json").read_text())
        return settings


def secure_node(directory: Path, port: int, *options: str) -> Secure:
    """One node, with its data in a directory, and further options of ``esp broker``; not started."""
    return Secure(
        directory,
        directory / "data-security",
        port,
        *("broker", "--secure", "--data-dir", "data"),
        *("--set", f"listeners=CLIENTS://127.0.0.1:{port}"),
        *options,
    )


def done(process: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that has succeeded."""
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout
