import os

from esp.runtime.tls.file_watch import FileWatch


def test_a_change_counts_once_when_it_has_settled(tmp_path):
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_text("1")
    watch = FileWatch([str(one), str(other)])
    assert not watch.is_changed_blocking()
    one.write_text("22")
    assert not watch.is_changed_blocking(), "it may go on changing"
    other.write_text("3")
    assert not watch.is_changed_blocking()
    assert watch.is_changed_blocking()
    assert not watch.is_changed_blocking()


def test_a_link_that_is_turned_and_a_file_that_goes_are_changes(tmp_path):
    old, new, link = tmp_path / "old", tmp_path / "new", tmp_path / "link"
    old.write_text("1")
    new.write_text("1")
    link.symlink_to(old)
    watch = FileWatch([str(link)])
    turned = tmp_path / "turned"
    turned.symlink_to(new)
    os.replace(turned, link)
    assert [watch.is_changed_blocking() for _ in range(3)] == [False, True, False]
    new.unlink()
    assert [watch.is_changed_blocking() for _ in range(3)] == [False, True, False]
