from pathlib import Path

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.journal import Journal
from esp.rebalance.journal_entries import (
    Begun,
    Ended,
    Finished,
    Replanned,
    Sample,
    Submitting,
    Throttling,
    Unthrottled,
    Wish,
    Wished,
)

P = TopicPartition("t", 0)


def test_history_is_the_same_for_whoever_reads_it(tmp_path: Path) -> None:
    path = str(tmp_path / "plan")
    entries = [
        Begun(1, "p"),
        Throttling(2, {"rate": "7"}),
        Throttling(3, {"rate": "ours"}),
        Submitting(3, [P]),
        Sample(4, 10),
        Wished(5, Wish.PAUSE),
        Ended(6, P, "done", ""),
    ]
    with Journal(path, "p") as writer, Journal(path, "p") as reader:
        for entry in entries:
            writer.add(entry)
        reader.catch_up()
        assert reader.history == writer.history
        assert reader.history.wish is Wish.PAUSE
        assert reader.history.previous_rates == {"rate": "7"}, "the second look saw our own"
        assert reader.history.submitted_ms == {P: 3}
        reader.add(Unthrottled(7))
        reader.add(Finished(8, "done"))
        writer.catch_up()
        assert writer.history.previous_rates is None
        assert writer.history.is_unthrottled
        assert writer.history.finished == Finished(8, "done")
    with Journal(path, "p") as journal:
        assert journal.history.began_ms == 1


def test_line_that_was_torn_is_not_glued_to_the_next(tmp_path: Path) -> None:
    path = str(tmp_path / "plan")
    with Journal(path, "p") as journal:
        journal.add(Begun(1, "p"))
        journal.add(Wished(2, Wish.PAUSE))
    file = Path(f"{path}.journal")
    file.write_bytes(file.read_bytes()[:-5])
    with Journal(path, "p") as journal:
        assert journal.history.wish is Wish.RUN
        journal.add(Wished(3, Wish.CANCEL))
    with Journal(path, "p") as journal:
        assert journal.history.wish is Wish.CANCEL


def test_journal_of_another_plan_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "plan")
    with Journal(path, "p") as journal:
        journal.add(Begun(1, "p"))
    with pytest.raises(OperatorError, match="another plan"), Journal(path, "q"):
        pass


def test_one_process_at_a_time_has_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "plan")
    with Journal(path, "p") as first, Journal(path, "p") as second:
        assert first.lock()
        assert not second.lock()
        assert first.lock(), "it has it already"
    with Journal(path, "p") as third:
        assert third.lock(), "it ends with whoever had it"


def test_plan_that_gave_way_names_its_successor(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "plan"), "p") as journal:
        for entry in (Begun(1, "p"), Finished(2, "stopped"), Replanned(3, "plan.replan-1")):
            journal.add(entry)
        assert journal.history.successor == "plan.replan-1"
