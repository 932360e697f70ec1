"""Prints what ``cProfile`` saw, per request."""

import os
import pstats
import sys
from pathlib import Path


def print_calls(path: Path, count: int, top: int) -> None:
    """Print the ``top`` functions by their own time of a profile that covers ``count`` requests."""
    profile = pstats.Stats(str(path), stream=sys.stdout).get_stats_profile()
    rows = sorted(profile.func_profiles.items(), key=lambda item: item[1].tottime, reverse=True)
    print(f"{'calls':>8} {'own us':>8} {'all us':>8}  function (all per request)")
    for name, row in rows[:top]:
        calls = int(row.ncalls.partition("/")[0])
        place = f"{'/'.join(row.file_name.split(os.sep)[-2:])}:{row.line_number}"
        print(f"{calls / count:8.2f} {row.tottime * 1e6 / count:8.2f} {row.cumtime * 1e6 / count:8.2f}  {name} {place}")
