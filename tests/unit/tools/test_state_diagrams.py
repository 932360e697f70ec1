import pytest

from esp.raft.roles import TRANSITIONS, Role
from tools.state_diagrams import DOCUMENTS, END, begin, diagrams, with_diagrams


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_diagrams_in_the_documentation_are_up_to_date(path):
    document = path.read_text()
    assert with_diagrams(document, DOCUMENTS[path]) == document, "run python -m tools.state_diagrams"


def test_every_diagram_stands_in_one_document():
    assert sorted(name for names in DOCUMENTS.values() for name in names) == sorted(diagrams())


def test_stale_diagrams_are_replaced_and_the_rest_kept():
    document = "".join(f"a\n{begin(name)}\nold\n{END}\nb" for name in diagrams())
    fresh = "".join(f"a\n{begin(name)}\n{diagram}\n{END}\nb" for name, diagram in diagrams().items())
    assert with_diagrams(document, diagrams()) == fresh


def test_a_document_without_a_place_for_a_diagram_is_an_error():
    document = "".join(f"{begin(name)}\n{END}\n" for name in [*diagrams()][1:])
    with pytest.raises(ValueError, match="no place"):
        with_diagrams(document, diagrams())


def test_every_change_of_role_is_drawn_and_no_other():
    drawn = {
        tuple(line.split(" --> "))
        for line in map(str.strip, diagrams()["a quorum member"].splitlines())
        if " --> " in line and "[*]" not in line
    }
    allowed = {(old.name, new.name) for old in Role for new in TRANSITIONS[old] if new is not old}
    assert drawn == allowed


def test_a_change_of_the_in_sync_set_shows_what_happens_to_it():
    assert "    IN_FLIGHT --> UNSURE: FATE_UNKNOWN" in diagrams()["a change of the in-sync set"].splitlines()


def test_a_state_that_nothing_follows_is_final():
    assert diagrams()["a broker"].splitlines()[-2] == "    SHUTTING_DOWN --> [*]"
