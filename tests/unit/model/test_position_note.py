import pytest

from esp.model.position_note import PositionNote, newest_batch, read_note, write_note

OLD, NEW = b"\1" * 16, b"\2" * 16


@pytest.mark.parametrize(
    "note",
    [
        PositionNote(OLD),
        PositionNote(OLD, batch=0, query="q"),
        PositionNote(NEW, OLD),
        PositionNote(NEW, b""),
    ],
)
def test_a_note_comes_back(note: PositionNote) -> None:
    assert read_note(write_note(note)) == note


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "5", '{"topicId":5}', '{"topicId":"AQ"}', '{"topicId":"' + "é" * 22 + '"}']
)
def test_texts_of_other_programs_are_no_notes(text: str) -> None:
    assert read_note(text) == PositionNote()


def test_the_newest_batch_is_found() -> None:
    assert newest_batch([]) is None
    assert newest_batch([PositionNote(OLD), PositionNote(OLD, batch=3), PositionNote(OLD, batch=0)]) == 3
