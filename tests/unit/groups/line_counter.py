"""Counts the lines of Python that a step of work takes: operations instead of time, the same on every machine."""

import sys
from pathlib import Path

import esp

ROOT = str(Path(esp.__file__).parent)


def lines_of(call):
    """Call, and return the result and the number of lines of ESP that were executed; a pass of a loop counts each time."""
    count = 0

    def in_frame(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return in_frame

    def on_call(frame, _event, _argument):
        return in_frame if frame.f_code.co_filename.startswith(ROOT) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, count


def lines_of_steps(work):
    """Finish a generator, and return its result and the lines of each of its steps."""
    counts = []

    def step():
        try:
            next(work)
        except StopIteration as end:
            return True, end.value
        return False, None

    while True:
        (is_done, result), count = lines_of(step)
        counts.append(count)
        if is_done:
            return result, counts
