from random import Random

from esp.simulation.file_content import FileContent


def test_a_sync_that_ends_late_does_not_undo_a_truncation_that_was_synced_meanwhile() -> None:
    content = FileContent()
    content.append(b"x" * 5000)
    slow = content.begin_sync()
    content.truncate(10)
    content.finish_sync(content.begin_sync())
    content.finish_sync(slow)
    content.lose_power(Random(0))
    assert bytes(content.cached) == b"x" * 10
