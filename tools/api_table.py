"""Write the table of served APIs and versions into docs/PROTOCOL.md, between its markers; with --check, only say whether it is up to date.

Usage: python -m tools.api_table [--check]
"""

import sys
from pathlib import Path

from esp.broker.authorization.checks import AT_CONTROLLERS, checks_of
from esp.protocol.registry import SERVED, ListenerKind, ServedApi
from tools.marked_text import main, replace_marked

DOCUMENT = Path(__file__).parent.parent / "docs" / "PROTOCOL.md"
BEGIN = "<!-- begin: table of APIs, written by tools/api_table.py -->"
END = "<!-- end: table of APIs -->"


def table() -> str:
    """The table in Markdown, one line per API."""
    lines = [
        "| key | API | served | advertised | flexible from | listeners | needs, with an authorizer |",
        "| --: | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {int(api.key)} | {api.name} | {_range(api.min_version, api.max_version)} "
            f"| {_advertised(api)} | {_flexible(api)} | {_listeners(api)} | {_needs(api)} |"
            for api in SERVED.values()
        ),
    ]
    return "\n".join(lines)


def with_table(document: str) -> str:
    """The document with the present table between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    return replace_marked(document, BEGIN, END, f"\n{table()}\n")


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _advertised(api: ServedApi) -> str:
    versions = _range(api.advertised_min, api.max_version)
    return versions if api.feature is None else f"{versions}, with `{api.feature}`"


def _flexible(api: ServedApi) -> str:
    return "all" if api.flexible_from <= api.min_version else str(api.flexible_from)


def _listeners(api: ServedApi) -> str:
    return ", ".join(kind.value for kind in ListenerKind if kind in api.listeners)


def _needs(api: ServedApi) -> str:
    kinds = [kind for kind in ListenerKind if kind in api.listeners]
    needs = _in_words(api, kinds[0])
    if len(kinds) > 1 and api.key in AT_CONTROLLERS:
        needs += f"; at controllers {_in_words(api, ListenerKind.CONTROLLER)}"
    return needs


def _in_words(api: ServedApi, kind: ListenerKind) -> str:
    return "; ".join(dict.fromkeys(check.what for check in checks_of(api.key, kind)))


if __name__ == "__main__":
    sys.exit(main(__doc__, "tools.api_table", {DOCUMENT: with_table}))
