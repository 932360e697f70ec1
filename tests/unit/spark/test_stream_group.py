from esp.consumer.group_messages import Committed
from esp.consumer.messages import Partition
from esp.model.position_note import NO_ID, PositionNote, Remembered, write_note
from esp.spark.stream_group import remember

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
OLD, NEW = b"\1" * 16, b"\2" * 16


def announced(offset: int) -> Committed:
    return Committed(offset, write_note(PositionNote(NEW, OLD)))


def test_a_group_remembers_ids_and_knows_what_it_has_not() -> None:
    assert remember({A0: 5}, {}) == Remembered({}, {})
    found = remember({A0: 5, B0: 5}, {A0: Committed(3, write_note(PositionNote(OLD)))})
    assert found == Remembered({"a": OLD, "b": b""}, {})
    assert remember({A0: 5}, {A0: Committed(3, "of another program")}).ids == {"a": NO_ID}


def test_what_was_announced_counts_if_the_checkpoint_has_it() -> None:
    committed = {A0: announced(70), A1: announced(50)}
    assert remember({A0: 70, A1: 50}, committed) == Remembered({"a": NEW}, {A0: 70, A1: 50})
    assert remember({A0: 50, A1: 50}, committed) == Remembered({"a": OLD}, {}), "one partition is at it by chance"


def test_the_offsets_of_before_may_be_gone_with_the_topic() -> None:
    committed = {A0: Committed(70, write_note(PositionNote(NEW, b"")))}
    assert remember({A0: 50}, committed).ids == {"a": b""}
    assert remember({A0: 70}, committed).ids == {"a": NEW}
