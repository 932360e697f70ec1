import importlib
import sys

import pytest

from esp.simulation.coverage.marking import AlreadyImportedError, install, is_of


@pytest.fixture
def room(tmp_path, monkeypatch):
    package = tmp_path / "made_up_room"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "door.py").write_text("def open_door():\n    return 'open'\n\ndef close_door():\n    return 'shut'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield "made_up_room"
    sys.meta_path[:] = before
    for module in [module for module in sys.modules if module.startswith("made_up_room")]:
        del sys.modules[module]


def test_functions_of_a_room_note_that_they_are_entered(room):
    entered = {}
    install(entered, [room])
    door = importlib.import_module(f"{room}.door")
    assert door.open_door() == "open"
    assert list(entered) == [f"{room}.door:open_door"]


def test_a_room_that_is_imported_already_cannot_be_watched(room):
    importlib.import_module(f"{room}.door")
    with pytest.raises(AlreadyImportedError, match="door"):
        install({}, [room])


def test_modules_are_told_from_ones_that_are_called_alike_and_from_those_of_inner_packages():
    assert is_of("a.b.c", ["a.b"])
    assert is_of("a.b", ["a.b"])
    assert not is_of("a.bc", ["a.b"])
    assert not is_of("a.b.c.d", ["a.b"])
