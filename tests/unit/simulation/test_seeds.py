"""What a process does for speed changes no run."""

import gc
import hashlib

from esp.simulation.seeds import prepare_process, run_seed


def test_seed_gives_the_same_trace_in_a_process_that_was_prepared():
    thresholds, derive_key = gc.get_threshold(), hashlib.pbkdf2_hmac
    before = run_seed(4, node_count=1, only=[]).digest
    try:
        prepare_process()
        assert gc.get_freeze_count() > 0
        assert hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 9) == derive_key("sha256", b"password", b"salt", 9)
        assert run_seed(4, node_count=1, only=[]).digest == before
    finally:
        hashlib.pbkdf2_hmac = derive_key
        gc.unfreeze()
        gc.set_threshold(*thresholds)
