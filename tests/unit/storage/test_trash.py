from esp.storage.trash import Trash
from tests.unit.storage.helpers import new_disk


def test_files_and_directories_are_removed_when_they_are_due() -> None:
    disk = new_disk()
    disk.make_directory("old/below")
    disk.write_file("old/below/file", b"x")
    disk.write_file("file", b"x")
    let_go: list[str] = []
    trash = Trash(disk)
    trash.add("old", 100)
    trash.add("file", 200, lambda: let_go.append("file"))
    trash.add("file", 200)
    assert trash.purge(99) == 0
    assert trash.purge(100) == 1
    assert not disk.exists("old")
    assert trash.purge(200) == 1
    assert not disk.exists("file")
    assert let_go == ["file"]
    assert len(trash) == 0
