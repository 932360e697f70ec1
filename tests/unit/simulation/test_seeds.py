"""What a process does for speed changes no run."""

import gc

from esp.simulation.seeds import prepare_process, run_seed


def test_seed_gives_the_same_trace_in_a_process_that_was_prepared():
    thresholds = gc.get_threshold()
    before = run_seed(4, node_count=1, only=[]).digest
    try:
        prepare_process()
        assert gc.get_freeze_count() > 0
        assert run_seed(4, node_count=1, only=[]).digest == before
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
