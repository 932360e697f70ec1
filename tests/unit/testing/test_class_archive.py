"""The archive of Kafka's classes on machines whose Java makes none; where it does, all tests with Kafka run on it."""

from pathlib import Path

import pytest

from esp.testing import class_archive
from esp.testing.class_archive import with_archive
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeError


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> KafkaTools:
    """Tools beside a Java that only tells its version, and a broker that does not come up."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return KafkaTools(tmp_path / "libs")


class NoKafka:
    """In place of a broker."""

    made = 0

    def __init__(self, data_dir: Path, tools: KafkaTools) -> None:
        self.command = tools.command("kafka")

    def format(self, _cluster_id: str, *_options: str) -> None:
        assert not any("ArchiveClassesAtExit" in word for word in self.command), "two programs would make one archive"

    def __enter__(self) -> None:
        NoKafka.made += 1
        assert any("ArchiveClassesAtExit" in word for word in self.command)
        raise NodeError("the node ended")

    def __exit__(self, *_: object) -> None:
        raise AssertionError


def test_without_an_archive_the_tools_do_their_work_and_nobody_tries_again(
    tools: KafkaTools, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(class_archive, "RealKafka", NoKafka)
    for _ in range(2):
        options = with_archive(tools).command("topics", "--list")
        [archive] = tmp_path.glob("classes-*.jsa")
        assert f"-XX:SharedArchiveFile={archive}" in options
        assert archive.stat().st_size == 0
    assert NoKafka.made == 1


def test_options_are_given_to_every_program(tmp_path: Path) -> None:
    tools = KafkaTools(tmp_path, ("-Da=1",)).with_options("-Db=2")
    assert tools.command("topics", options=["-Dc=3"])[1:5] == ["-Xmx256m", "-Da=1", "-Db=2", "-Dc=3"]
