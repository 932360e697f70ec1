from random import Random

from esp.simulation.machine.file_content import FileContent


def test_a_sync_that_ends_late_does_not_undo_a_truncation_that_was_synced_meanwhile() -> None:
    content = FileContent()
    content.append(b"x" * 5000)
    slow = content.begin_sync()
    content.truncate(10)
    content.finish_sync(content.begin_sync())
    content.finish_sync(slow)
    content.lose_power(Random(0))
    assert bytes(content.cached) == b"x" * 10


def synced(data: bytes) -> FileContent:
    content = FileContent()
    content.append(data)
    content.finish_sync(content.begin_sync())
    return content


def test_what_rots_is_read_from_the_device_and_known_to_who_looks_from_outside() -> None:
    content = synced(b"x" * 5000)
    content.rot(4500, 1)
    assert not content.is_resident(4500, 4501)
    assert content.is_resident(0, 4096)
    assert content.cached[4500] == ord("x") ^ 1
    assert content.written(4499, 4502) == b"xxx"
    assert content.is_rotten(4500, 4501)
    assert not content.is_rotten(0, 4500)


def test_what_was_not_synced_cannot_rot() -> None:
    content = synced(b"x" * 10)
    content.append(b"y")
    assert not content.may_rot(5)


def test_rot_survives_a_power_loss_and_goes_with_what_is_cut_away() -> None:
    content = synced(b"x" * 5000)
    content.rot(4500, 1)
    content.rot(10, 2)
    content.lose_power(Random(0))
    assert content.cached[10] == ord("x") ^ 2
    content.truncate(4500)
    assert list(content.rotten) == [10]
    content.mend()
    assert bytes(content.cached) == b"x" * 4500
    assert not content.rotten
