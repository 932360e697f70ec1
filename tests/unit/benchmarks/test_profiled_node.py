"""The two profilers that a node can be run under."""

import json
import pstats
import signal
import time

from benchmarks.profiled_node import CallProfiler, Profiler, StackSampler


def spend_time():
    """Use CPU for long enough to be seen."""
    end = time.process_time() + 0.1
    while time.process_time() < end:
        sum(range(1000))


def observe(profiler: Profiler, path) -> None:
    profiler.begin()
    spend_time()
    profiler.end(str(path))


def test_calls_are_counted_and_timed(tmp_path):
    path = tmp_path / "profile"
    observe(CallProfiler(), path)
    functions = pstats.Stats(str(path)).get_stats_profile().func_profiles
    assert functions["spend_time"].ncalls == "1"
    assert functions["spend_time"].cumtime >= 0.09


def test_samples_fall_where_the_time_is_spent_and_end_with_the_observation(tmp_path):
    path = tmp_path / "profile"
    before = signal.getsignal(signal.SIGPROF)
    try:
        observe(StackSampler(), path)
        profile = json.loads(path.read_text())
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGPROF, before)
    assert profile["samples"] >= 3
    assert sum(profile["lines"].values()) == profile["samples"]
    assert profile["functions"]["benchmarks/test_profiled_node.py spend_time"] > profile["samples"] / 2
