"""The storage tier by seed, and that its checks see what is wrong."""

from collections import deque
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from esp.model.errors import CorruptionError
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, tallied
from esp.simulation.log_tier.checks import check_log, check_reads, check_recovered
from esp.simulation.log_tier.run import LogRun, has_short_lives, loses_fronts
from esp.simulation.log_tier.transactions import list_transactions
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.storage.clean_marker import CleanMarker
from esp.storage.recovery import _Loader
from esp.storage.transaction_index import TransactionIndex


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_no_seed_violates_an_invariant(first):
    for seed in range(first, first + 10):
        LogRun(seed).run()


def test_a_seed_gives_the_same_run_twice():
    runs = [LogRun(5) for _ in range(2)]
    for run in runs:
        run.run()
    assert runs[0].kept == runs[1].kept
    assert runs[0].kept


@pytest.fixture
def run():
    """A run that has something in its log."""
    run = LogRun(1)
    run.run()
    while len(run.kept) < 5 or run.log.log_end_offset - run.log.log_start_offset < 5:
        run._append()
    check_log(run.log, run.kept)
    return run


def test_a_high_watermark_behind_the_end_is_seen(run):
    run.log.high_watermark = run.log.log_end_offset + 1
    with pytest.raises(ViolationError, match="INV-ORDER"):
        check_log(run.log, run.kept)


def test_epochs_that_are_not_those_of_the_batches_are_seen(run):
    run.log.leader_epochs.clear()
    with pytest.raises(ViolationError, match="INV-EPOCH-CACHE"):
        check_log(run.log, run.kept)


def test_a_producer_of_nothing_and_one_that_is_forgotten_are_seen(run):
    others = [batch for batch in run.kept if batch.header.producer_id < 0]
    with pytest.raises(ViolationError, match="INV-PROD-FOLD"):
        check_log(run.log, others)
    run.log.producers = type(run.log.producers)()
    with pytest.raises(ViolationError, match="INV-PROD-FOLD"):
        check_log(run.log, run.kept)


def test_a_recovered_log_that_is_too_short_too_long_or_another_is_seen(run):
    start = run.log.log_start_offset
    check_recovered(run.log, run.kept, run.log.log_end_offset, start)
    with pytest.raises(ViolationError, match="INV-DISK-ORDER"):
        check_recovered(run.log, run.kept, run.log.log_end_offset + 1, start)
    with pytest.raises(ViolationError, match="INV-RECOVER-PREFIX"):
        check_recovered(run.log, run.kept[:-1], 0, start)
    last = run.kept[-1]
    with pytest.raises(ViolationError, match="other bytes"):
        check_recovered(run.log, [*run.kept[:-1], last._replace(data=b"x" + last.data[1:])], 0, start)


def test_a_recovered_log_that_begins_behind_its_start_is_seen(run):
    start = run.log.log_start_offset
    run.log.log_start_offset = run.kept[-1].header.next_offset
    with pytest.raises(ViolationError, match="INV-RECOVER-PREFIX"):
        check_recovered(run.log, run.kept, 0, start)


def test_bytes_below_the_recovery_point_that_are_gone_end_the_run(run):
    run._flush()
    run._checkpoint()
    for name in run.disk.listdir("/data/topic-0"):
        if name.endswith(".log"):
            run.disk.open(f"/data/topic-0/{name}").truncate(0)
    with pytest.raises((CorruptionError, ViolationError)):
        run._kill()


def test_a_power_loss_may_undo_a_cut_that_the_process_before_the_last_one_died_in():
    """Anywhere in the cut; in one of these moments the file is shorter in the page cache only, and the disk brings its end back."""
    with tallied() as excuses:
        for changes in range(1, 20):
            run = LogRun(50)
            run._kills = False
            for _ in range(4):
                run._append()
            run.log.flush_blocking()
            end_offset = run.kept[-2].header.next_offset
            run.disk.kill_after(changes)
            with suppress(ProcessKilledError):
                run._cut(end_offset, partial(run.log.truncate_to, end_offset))
            run._kill()
            run._append()
            run._kill()
            run._lose_power()
            check_log(run.log, run.kept)
    assert excuses[Excuse.RESTORED_CUTS] == 1


def test_readers_that_get_something_else_and_a_log_that_takes_itself_for_rotten_are_seen(run):
    check_reads(run.log, run.kept, Random(0))
    others = [batch._replace(data=b"x" + batch.data[1:]) for batch in run.kept]
    with pytest.raises(ViolationError, match="INV-READ-STABLE"):
        check_reads(run.log, others, Random(0))
    run.log.rot = CorruptionError("rotten")
    with pytest.raises(ViolationError, match="takes itself for rotten"):
        check_reads(run.log, run.kept, Random(0))


# transactions ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def transacting(run):
    """A run of which the log has aborted, committed and open transactions above its last segment's base."""
    assert run._transacts
    run._commit()
    run._known_from = {0}
    run.log.truncate_fully_and_start_at(run.log.log_end_offset + 5)
    run._keep(0)
    run._begin_epoch()
    while len([each for each in list_transactions(run.kept) if not each.is_commit and each.last_offset]) < 3 or not (
        run.log.producers.oldest_open_offset < run.log.log_end_offset
    ):
        run._append()
    run.log.high_watermark = run.log.log_end_offset
    run._check_transactions().check_state()
    return run


def test_a_stable_offset_that_is_not_that_of_the_batches_is_seen(transacting):
    transacting.log.producers._open.clear()
    with pytest.raises(ViolationError, match="INV-LSO"):
        transacting._check_transactions().check_state()


def test_open_transactions_and_coordinators_that_are_wrong_are_seen(transacting):
    producer_id = next(iter(transacting.log.producers._open))
    state = transacting.log.producers.get(producer_id)
    first, state.transaction_first_offset = state.transaction_first_offset, -1
    with pytest.raises(ViolationError, match="INV-PROD-FOLD"):
        transacting._check_transactions().check_state()
    state.transaction_first_offset = first + 1
    with pytest.raises(ViolationError, match="INV-PROD-FOLD"):
        transacting._check_transactions().check_state()
    state.transaction_first_offset = first
    state.coordinator_epoch = 99
    with pytest.raises(ViolationError, match="INV-PROD-FOLD"):
        transacting._check_transactions().check_state()


def test_an_aborted_transaction_that_is_missing_is_seen(transacting):
    transacting.log.producers._open.clear()  # so that all of it may be read
    for segment in transacting.log.files.segments:
        segment.aborted = TransactionIndex()
    check = transacting._check_transactions()
    with pytest.raises(ViolationError, match="INV-ABORTED-LIST"):
        deque(map(check.check_aborted, map(Random, range(200))), maxlen=0)


def run_short_lives(count, first=0):
    """Runs in which starts are cut short, from a seed on."""
    for seed in [seed for seed in range(first, first + 200) if has_short_lives(seed)][:count]:
        LogRun(seed).run()


def test_in_a_part_of_the_runs_starts_are_cut_short_and_the_power_is_lost_soon_after():
    assert 10 < sum(has_short_lives(seed) for seed in range(200)) < 60
    run_short_lives(5)


def test_in_a_part_of_the_runs_logs_start_over_and_the_power_is_lost_again(monkeypatch):
    assert 5 < sum(loses_fronts(seed) for seed in range(200)) < 40
    starts = []
    start_over = _Loader._start_over
    monkeypatch.setattr(
        _Loader, "_start_over", lambda loader: (starts.append(loader.log_start_offset), start_over(loader))
    )
    for seed in [seed for seed in range(200) if loses_fronts(seed)][:3]:
        LogRun(seed).run()
    assert len(starts) > 3


def test_a_marker_of_a_clean_shutdown_that_a_power_loss_brings_back_is_seen(monkeypatch):
    """REC-1: a start that finds none syncs the directory all the same, as the one before it may have removed it."""
    take_blocking = CleanMarker.take_blocking
    monkeypatch.setattr(
        CleanMarker,
        "take_blocking",
        lambda marker: take_blocking(marker) if marker._disk.exists(marker._path) else None,
    )
    with pytest.raises(CorruptionError, match=r"closed cleanly|does not match its checksum"):
        run_short_lives(20, first=330)
