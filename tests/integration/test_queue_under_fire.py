"""A minute of a queue under fire; ``make queue-fire MINUTES=10`` runs as long as you like."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.queue_under_fire import Event, judge

MINUTES = 0.7


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_no_record_is_lost_or_accepted_twice(tmp_path: Path) -> None:
    """In a process of its own, as users run it."""
    options = ["--minutes", str(MINUTES), "--seed", "1", "--librdkafka", "4", "--java", "1"]
    command = [sys.executable, "-m", "tests.integration.queue_under_fire", *options]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "violations: 0" in done.stdout
    accepted = {family: int(count) for count, family in re.findall(r"(\d+) by (\w+)", done.stdout)}
    assert accepted.keys() == {"librdkafka", "Java"}
    assert sum(accepted.values()) > 500


class TestTheJudge:
    FINE = (Event("got", 1, 1, 1.0), Event("accepted", 1, 1, 1.1))

    def verdict(self, *events: Event, letters: tuple[int, ...] = (), acked: tuple[int, ...] = (1,)) -> list[str]:
        return list(judge(set(acked), 8, events, {number: [{}] for number in letters}))

    def test_accepts_what_is_correct(self) -> None:
        assert self.verdict(*self.FINE) == []
        assert self.verdict(*self.FINE, Event("got", 1, 1, 3.0)) == []
        assert self.verdict(Event("got", 1, 1, 1.0), *self.FINE[1:]) == []
        assert self.verdict(Event("got", 7, 1, 1.0), letters=(7,), acked=(7,)) == []

    def test_a_record_that_is_accepted_twice(self) -> None:
        assert "twice" in self.verdict(*self.FINE, Event("accepted", 1, 2, 2.0))[0]

    def test_a_record_that_comes_again(self) -> None:
        assert "again" in self.verdict(*self.FINE, Event("got", 1, 2, 1.2))[0]
        assert "again" in self.verdict(*self.FINE, Event("got", 1, 1, 60.0))[0]

    def test_a_record_that_never_came(self) -> None:
        assert "never delivered" in self.verdict()[0]

    def test_a_record_beyond_the_limit(self) -> None:
        assert "beyond the limit" in self.verdict(Event("got", 1, 6, 1.0))[0]

    def test_poison_without_a_letter_and_letters_without_poison(self) -> None:
        assert "no letter" in self.verdict(acked=(7,))[0]
        assert "though members accept it" in self.verdict(*self.FINE, letters=(1,))[0]
        assert "never written" in self.verdict(acked=(), letters=(9,))[0]
