"""Write the table of served APIs and versions into docs/PROTOCOL.md, between its markers; with --check, only say whether it is up to date.

Usage: python tools/api_table.py [--check]
"""

import argparse
import sys
from pathlib import Path

from esp.protocol.registry import SERVED, ListenerKind, ServedApi

DOCUMENT = Path(__file__).parent.parent / "docs" / "PROTOCOL.md"
BEGIN = "<!-- begin: table of APIs, written by tools/api_table.py -->"
END = "<!-- end: table of APIs -->"


def table() -> str:
    """The table in Markdown, one line per API."""
    lines = [
        "| key | API | served | advertised | flexible from | listeners |",
        "| --: | --- | --- | --- | --- | --- |",
        *(
            f"| {int(api.key)} | {api.name} | {_range(api.min_version, api.max_version)} "
            f"| {_range(api.advertised_min, api.max_version)} | {_flexible(api)} | {_listeners(api)} |"
            for api in SERVED.values()
        ),
    ]
    return "\n".join(lines)


def with_table(document: str) -> str:
    """The document with the present table between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    before, begin, rest = document.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{DOCUMENT} has no place for the table: it stands between {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _flexible(api: ServedApi) -> str:
    return "all" if api.flexible_from <= api.min_version else str(api.flexible_from)


def _listeners(api: ServedApi) -> str:
    return ", ".join(kind.value for kind in ListenerKind if kind in api.listeners)


def main() -> int:
    """Exit status 1 where --check finds the table out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the table is out of date")
    arguments = parser.parse_args()
    document = DOCUMENT.read_text()
    fresh = with_table(document)
    if fresh == document:
        return 0
    if arguments.check:
        print(f"{DOCUMENT} is out of date: run python tools/api_table.py", file=sys.stderr)
        return 1
    DOCUMENT.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
