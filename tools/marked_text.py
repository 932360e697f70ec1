"""Parts of documents that are written from the code: what stands between two markers, and the command that keeps it up to date."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def replace_marked(document: str, begin: str, end: str, text: str) -> str:
    """The document with ``text`` between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    before, first, rest = document.partition(begin)
    _old, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"there is no place for it: it stands between {begin!r} and {end!r}")
    return f"{before}{begin}{text}{end}{after}"


def main(description: str, module: str, renewals: Mapping[Path, Callable[[str], str]]) -> int:
    """Write what has changed; with ``--check``, only say what is out of date.

    Args:
        description: the help text of the command.
        module: the command's name, for the hint to run it.
        renewals: for each document, the function that makes its present text of an older one.

    Returns:
        The exit status: 1 if ``--check`` finds a document out of date.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a document is out of date")
    is_check = parser.parse_args().check
    stale = False
    for path, renew in renewals.items():
        document = path.read_text(encoding="utf-8")
        fresh = renew(document)
        if fresh == document:
            continue
        if is_check:
            print(f"{path} is out of date: run python -m {module}", file=sys.stderr)
            stale = True
        else:
            path.write_text(fresh, encoding="utf-8")
    return 1 if stale else 0
