from pathlib import Path

import pytest

from esp.capture.directory import Directory
from esp.consumer.errors import ConsumerError


def test_owner_is_read_back_and_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path / "lake"))
    assert directory.read_owner() is None
    directory.write_owner("c")
    assert directory.read_owner() == "c"
    assert directory.list_work() == []
    (tmp_path / "lake" / "_capture.json").write_text("{}")
    with pytest.raises(ConsumerError, match="it names no capture: restore it, as"):
        directory.read_owner()


def test_a_file_that_has_no_name_is_none_of_the_capture(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    with directory.open_output("_work/t-0-0-a.parquet") as stream:
        stream.write(b"x")
    (tmp_path / "other.txt").write_text("x")
    assert not directory.has_files()
    assert directory.topics() == []
    assert directory.list_work() == ["_work/t-0-0-a.parquet"]
    assert directory.publish("_work/t-0-0-a.parquet", "t/dt=2026-11-26/0-0-3.parquet")
    assert directory.has_files()
    assert directory.topics() == ["t"]
    assert not directory.publish("_work/t-0-0-a.parquet", "t/dt=2026-11-26/0-0-3.parquet")
    directory.remove("_work/t-0-0-a.parquet")


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_directories_are_paths_and_urls(tmp_path: Path, form: str) -> None:
    place = form.format(tmp_path)
    directory = Directory(place)
    directory.write_owner("c")
    assert directory.uri("t/f") == f"{place}/t/f"
    assert Directory(str(tmp_path)).read_owner() == "c"


def test_a_file_system_that_is_not_known_is_told() -> None:
    with pytest.raises(ConsumerError, match=r"--to nosuch://x: .*: name a directory, or a URL that pyarrow knows"):
        Directory("nosuch://x")
