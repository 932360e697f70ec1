import json

import pytest
from rich.console import Console

from esp.cli import output
from esp.cli.rebalance import display
from esp.cli.rebalance.display import make_display, print_report, summary
from esp.model.ids import TopicPartition
from esp.rebalance.journal_entries import Wish
from esp.rebalance.report import MoveReport, Report
from esp.rebalance.stages import Stage


def report(*stages: Stage, reason: str = "", wish: Wish = Wish.RUN) -> Report:
    moves = tuple(
        MoveReport(TopicPartition("t", number), (1, 2), (1, 3), stage, reason, 512 if stage.is_active else 0, 1024)
        for number, stage in enumerate(stages)
    )
    return Report(wish, moves, 256.0, 2048, 7.0, "")


def test_summary_tells_what_is_left_and_for_how_long() -> None:
    assert summary(report(Stage.COPYING, Stage.PLANNED)) == (
        "0/2 moves done, 1 in progress, 512 B of 2.0 KiB, 256 B/s, 6 s left, limit 2.0 KiB/s for each broker, produce p99 7 ms"
    )
    paused = summary(report(Stage.COPYING, wish=Wish.PAUSE))
    assert paused.endswith("paused")
    assert "left" not in paused, "nobody knows"


def test_line_is_written_when_something_changes(capsys: pytest.CaptureFixture[str]) -> None:
    display = make_display(json=False)
    with display.shown():
        for reason in ("", "waiting for bytes: none came for 10 s", "waiting for bytes: none came for 11 s"):
            display.watch(report(Stage.COPYING, reason=reason))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("t-0")]
    assert lines == [
        "t-0 [1, 2] -> [1, 3] copying 512 B of 1.0 KiB",
        "t-0 [1, 2] -> [1, 3] copying 512 B of 1.0 KiB: waiting for bytes: none came for 10 s",
    ]


def test_programs_get_a_document_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    display = make_display(json=True)
    with display.shown():
        display.watch(report(Stage.COPYING))
        display.watch(report(Stage.DONE))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["stage"] for each in told if each["event"] == "move"] == ["copying", "done"]
    [progress] = [each for each in told if each["event"] == "progress"]
    assert (progress["left_bytes"], progress["left_seconds"]) == (512, 2.0)


def test_report_names_the_moves_that_go_on_or_wait(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(Stage.DONE, Stage.COPYING, Stage.PLANNED), json=False)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["t-1"]
    print_report(report(Stage.BLOCKED, reason="blocked by broker 3"), json=True)
    [detail] = json.loads(capsys.readouterr().out)["details"]
    assert (detail["stage"], detail["reason"]) == ("blocked", "blocked by broker 3")


def test_words_of_brokers_are_neither_markup_nor_commands_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "[/red]\x1b]0;mine\x07\x9b2J\n"
    for module in (output, display):
        monkeypatch.setattr(module, "console", Console(force_terminal=True, color_system=None, width=120))
    shown = make_display(json=False)
    with shown.shown():
        shown.watch(report(Stage.BLOCKED, reason=words)._replace(trouble=f"trouble: {words}"))
    printed = capsys.readouterr().out
    assert "trouble: " + (r"[/red]\x1b]0;mine\x07\x9b2J\n") in printed
    assert printed.count(r"[/red]\x1b]0;mine\x07\x9b2J\n") >= 2
    assert set("\x07\x9b").isdisjoint(printed)
    assert "\x1b]" not in printed, "the other escapes draw the bars"


def test_empty_partitions_have_a_time_left_by_their_number() -> None:
    moves = tuple(MoveReport(TopicPartition("t", n), (1,), (2,), Stage.PLANNED, "", 0, 0) for n in range(1000))
    many = Report(Wish.RUN, moves, None, None, None, "")
    assert many.left_s == pytest.approx(16.0)
    assert "16 s left" in summary(many)
    small = many._replace(moves=tuple(move._replace(total_bytes=1) for move in moves))
    assert small.left_s is None, "no rate is known"
    assert small._replace(bytes_per_second=1e9).left_s == pytest.approx(16.0)
    assert small._replace(bytes_per_second=10.0).left_s == pytest.approx(100.0)
