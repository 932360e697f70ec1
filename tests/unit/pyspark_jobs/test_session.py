import argparse

import pytest

from pyspark_jobs.session import add_session_arguments, build_session


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_session_arguments(parser)
    return parser.parse_args(arguments)


def test_master_is_the_local_machine_unless_told() -> None:
    assert parse().master == "local[*]"


def test_settings_are_collected_and_values_may_hold_equal_signs() -> None:
    assert dict(parse("--conf", "a=1", "--conf=b=c=d").conf) == {"a": "1", "b": "c=d"}


@pytest.mark.parametrize("text", ["", "=", "novalue", "=x"])
def test_a_setting_without_key_or_value_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--conf", text)
    assert "is not KEY=VALUE" in capsys.readouterr().err


def test_a_machine_without_java_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SystemExit, match="Spark needs Java 17"):
        build_session("no-java")
