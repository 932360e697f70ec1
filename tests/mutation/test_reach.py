from tests.mutation.reach import TESTS_MAX_S, Note, Reach, load, write

NOTES = (
    Note("", "tests/a.py::test_slow", 3.0, ("m:f", "m:g")),
    Note("", "tests/a.py::test_parametrized", 1.0, ("m:f",)),
    Note("", "tests/a.py::test_parametrized", 1.0, ()),
    Note("nodes", "7", 4.0, ("m:f",)),
    Note("nodes", "12", 2.0, ("m:f",)),
    Note("log", "3", 0.1, ("m:g",)),
)


def test_the_cheapest_tests_and_seeds_that_enter_a_function_come_first():
    tests, seeds = Reach(NOTES).find("m:f")
    assert tests == ("tests/a.py::test_parametrized", "tests/a.py::test_slow")
    assert seeds == {"nodes": (12, 7)}
    assert Reach(NOTES).find("m:g") == (("tests/a.py::test_slow",), {"log": (3,)})


def test_of_a_function_that_very_many_tests_enter_some_are_taken():
    notes = [Note("", f"tests/a.py::test_{number:03}", TESTS_MAX_S / 4, ("m:f",)) for number in range(100)]
    assert len(Reach(notes).find("m:f").tests) == 3


def test_of_what_is_not_noted_nothing_is_known():
    assert Reach(()).is_empty
    assert Reach(NOTES).find("m:h") == ((), {})


def test_notes_are_read_as_they_were_written(tmp_path):
    for note in NOTES:
        write(tmp_path / "notes", note)
    assert load(tmp_path / "notes").find("m:f") == Reach(NOTES).find("m:f")
    assert load(tmp_path / "missing").is_empty
