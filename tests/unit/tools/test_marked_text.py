import sys

import pytest

from tools.marked_text import main, replace_marked


def test_what_stands_between_the_markers_is_replaced_and_nothing_else():
    assert replace_marked("a<old>b<>", "<", ">", "new") == "a<new>b<>"
    for without in ("a old>", "a<old", ""):
        with pytest.raises(ValueError, match="no place"):
            replace_marked(without, "<", ">", "new")


@pytest.mark.parametrize(
    ("old", "check", "status", "new"), [("a", [], 0, "b"), ("a", ["--check"], 1, "a"), ("b", ["--check"], 0, "b")]
)
def test_a_document_is_renewed_or_with_check_only_complained_of(tmp_path, monkeypatch, capsys, old, check, status, new):
    document = tmp_path / "document.md"
    document.write_text(old)
    monkeypatch.setattr(sys, "argv", ["tool", *check])
    assert main("It writes b.", "tools.some", {document: lambda _old: "b"}) == status
    assert document.read_text() == new
    assert ("run python -m tools.some" in capsys.readouterr().err) == (status == 1)
