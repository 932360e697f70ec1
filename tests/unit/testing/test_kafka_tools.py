"""Kafka's tools on a machine that lacks what they need."""

import os
from pathlib import Path

import pytest

from esp.testing import kafka_tools
from esp.testing.kafka_tools import KafkaTools, ToolsMissingError


def test_missing_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolsMissingError, match="java"):
        KafkaTools.find()


def test_missing_maven_is_named_and_nothing_is_taken_for_complete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(kafka_tools.HOME_VARIABLE, str(tmp_path / "home"))
    for _ in range(2):
        with pytest.raises(ToolsMissingError, match="mvn"):
            KafkaTools.find()


def test_failed_fetch_says_what_maven_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, script in {"java": "#!/bin/sh\n", "mvn": "#!/bin/sh\necho no network; exit 1\n"}.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(kafka_tools.HOME_VARIABLE, str(tmp_path / "home"))
    with pytest.raises(ToolsMissingError, match="no network"):
        KafkaTools.find()


def test_each_group_of_jars_is_fetched_from_its_own_pom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scripts = {
        "java": "#!/bin/sh\n",
        "mvn": "#!/bin/sh\n" + 'while [ "$1" != -f ]; do shift; done; mkdir -p "$(dirname "$2")/libs"\n',
    }
    for name, script in scripts.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(kafka_tools.HOME_VARIABLE, str(tmp_path / "home"))
    homes = {pom: KafkaTools.find(pom).library_dir.parent for pom in (kafka_tools.TOOLS_POM, kafka_tools.ECOSYSTEM_POM)}
    assert {pom: (home / "pom.xml").read_text() for pom, home in homes.items()} == {
        pom: pom.read_text() for pom in homes
    }
    assert len(set(homes.values())) == 2
    assert "kafka-streams" not in kafka_tools.TOOLS_POM.read_text()
    assert "kafka-streams" in kafka_tools.ECOSYSTEM_POM.read_text()


def test_command_names_the_tools_class_and_its_arguments(tmp_path: Path) -> None:
    command = KafkaTools(tmp_path).command("topics", "--list", heap="64m")
    assert command[0] == "java"
    assert command[1] == "-Xmx64m"
    assert command[-2:] == ["org.apache.kafka.tools.TopicCommand", "--list"]
    assert KafkaTools(tmp_path).command("some.other.Main")[-1] == "some.other.Main"
