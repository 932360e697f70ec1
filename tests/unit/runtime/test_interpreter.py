"""What a node's process sets of its interpreter."""

import gc
import sys

from esp.runtime.interpreter import SWITCH_INTERVAL_S, shorten_pauses, spare_what_exists


def test_other_threads_give_the_interpreter_back_soon() -> None:
    before = sys.getswitchinterval()
    try:
        shorten_pauses()
        assert abs(sys.getswitchinterval() - SWITCH_INTERVAL_S) < 1e-6
    finally:
        sys.setswitchinterval(before)


def test_what_exists_is_looked_through_no_more() -> None:
    try:
        spare_what_exists()
        assert gc.get_freeze_count() > 1000
        assert len(gc.get_objects()) < 1000
    finally:
        gc.unfreeze()
