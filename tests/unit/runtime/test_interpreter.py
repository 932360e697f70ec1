"""What a node's process sets of its interpreter."""

import gc
import sys

from esp.records.compression import compress, decompress, make_large_rooms_by
from esp.runtime.interpreter import SWITCH_INTERVAL_S, YOUNG_OBJECTS, shorten_pauses, spare_what_exists
from esp.runtime.large_memory import large_memory


def test_other_threads_give_the_interpreter_back_soon() -> None:
    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    try:
        shorten_pauses()
        assert abs(sys.getswitchinterval() - SWITCH_INTERVAL_S) < 1e-6
        assert gc.get_threshold() == YOUNG_OBJECTS
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*thresholds)


def test_what_exists_is_looked_through_no_more() -> None:
    try:
        spare_what_exists()
        assert gc.get_freeze_count() > 1000
        assert len(gc.get_objects()) < 1000
    finally:
        gc.unfreeze()


def test_large_batches_are_opened_in_it() -> None:
    asked: list[int] = []

    def make(size: int) -> memoryview:
        asked.append(size)
        return large_memory(size)

    data = bytes(1_000_000)
    make_large_rooms_by(make)
    try:
        for codec in (1, 3, 4):
            assert decompress(codec, compress(codec, data), 2_000_000) == data
    finally:
        make_large_rooms_by(lambda size: memoryview(bytearray(size)))
    assert asked
    assert max(asked) <= 2_000_000
