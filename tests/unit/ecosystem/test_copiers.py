"""Copiers that are kept running, and the offsets of what they copy."""

import sys
import threading
from pathlib import Path

from tests.ecosystem.copier import Copied, first_offsets, next_offsets
from tests.ecosystem.copiers import Copier
from tests.ecosystem.program import Program
from tests.ecosystem.waiting import wait_for


def copier(directory: Path, status: int) -> tuple[Copier, Path]:
    """A copier whose program notes its start in a file and ends, or sleeps if the status is -1."""
    code = "import sys, time; print('started', flush=True); time.sleep(60 if sys.argv[1] == '-1' else 0); sys.exit(int(sys.argv[1]))"
    program = Program([sys.executable, "-c", code, str(status)], directory=directory, name="copier")
    return Copier(program, every_s=0), program.stdout_path


def starts(path: Path) -> int:
    """The number of starts so far."""
    return path.read_text().count("started") if path.exists() else 0


def test_ended_copier_is_started_again_and_its_failures_are_counted(tmp_path: Path) -> None:
    kept, noted = copier(tmp_path, 2)

    def has_started_three_times() -> bool:
        kept.keep()
        return starts(noted) >= 3

    wait_for(has_started_three_times, 20, "three starts")
    kept.stop()
    assert kept.failures >= 2


def test_copier_that_has_no_more_to_copy_did_not_fail(tmp_path: Path) -> None:
    kept, noted = copier(tmp_path, 0)

    def has_started_twice() -> bool:
        kept.keep()
        return starts(noted) >= 2

    wait_for(has_started_twice, 20, "two starts")
    kept.stop()
    assert kept.failures == 0


def test_killed_copier_is_started_again_and_did_not_fail(tmp_path: Path) -> None:
    kept, noted = copier(tmp_path, -1)
    kept.keep()
    wait_for(lambda: starts(noted) == 1, 20, "the start")
    kept.kill_and_start(threading.Event())
    wait_for(lambda: starts(noted) == 2, 20, "the second start")
    kept.keep()
    kept.stop()
    assert (kept.failures, starts(noted)) == (0, 2)


def test_offsets_of_a_batch_are_those_of_its_partitions_ends() -> None:
    batch = [Copied(*place, None, None) for place in ((0, 5), (1, 9), (0, 6), (1, 12))]
    assert first_offsets(batch) == {0: 5, 1: 9}
    assert next_offsets(batch) == {0: 7, 1: 13}
