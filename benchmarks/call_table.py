"""Prints what ``cProfile`` saw, per request."""

import os
import pstats
from pathlib import Path


def print_calls(path: Path, count: int, top: int) -> None:
    """Print the ``top`` functions by their own time of a profile that covers ``count`` requests."""
    # ``get_stats_profile`` goes by names alone, and would show one of a dozen functions called "append".
    by_function: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    by_function = vars(pstats.Stats(str(path)))["stats"]
    rows = sorted(by_function.items(), key=lambda item: item[1][2], reverse=True)
    print(f"{'calls':>8} {'own us':>8} {'all us':>8}  function (all per request)")
    for (file, line, name), (_, calls, own_s, all_s, _) in rows[:top]:
        place = f"{'/'.join(file.split(os.sep)[-2:])}:{line}"
        print(f"{calls / count:8.2f} {own_s * 1e6 / count:8.2f} {all_s * 1e6 / count:8.2f}  {name} {place}")
