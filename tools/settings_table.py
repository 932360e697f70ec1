"""Write the tables of settings into docs/settings.md, between its markers; with --check, only say whether they are up to date.

Usage: python -m tools.settings_table [--check]
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from esp.settings.broker_table import BROKER_SETTINGS, REFUSED
from esp.settings.dynamic import DYNAMIC_ONLY, EFFECTIVE_AT_ONCE, NOT_WHILE_RUNNING, OURS_WHILE_RUNNING
from esp.settings.group import group_settings
from esp.settings.known import Scope, known_settings
from esp.settings.rebalance import ASKED_OF_METADATA, DRAINING
from esp.settings.topic import TopicSettings
from esp.settings.topic_table import TOPIC_SETTINGS
from tools.marked_text import main, replace_marked

DOCUMENT = Path(__file__).parent.parent / "docs" / "settings.md"
BEGIN = "<!-- begin: tables of settings, written by tools/settings_table.py -->"
END = "<!-- end: tables of settings -->"

FROM_METADATA = ("min.insync.replicas", "unclean.leader.election.enable")
"""Effective while the node runs although no node takes them over: leaders and the controller read them from the metadata."""


def tables() -> str:
    """All tables in Markdown."""
    effective = [name for name in known_settings("broker") if name in BROKER_SETTINGS]
    internal = [name for name in BROKER_SETTINGS if name not in known_settings("broker")]
    without = [name for name in known_settings("broker") if name not in BROKER_SETTINGS and name not in REFUSED]
    sections = (
        ("## Topics", "", ("setting", "type", "default", "node's setting", "effect"), _topic_rows()),
        (
            "## Nodes: with an effect",
            "",
            ("setting", "type", "default", "while running", "effect"),
            (_broker_row(name) for name in (*effective, *sorted(internal), *DYNAMIC_ONLY, *ASKED_OF_METADATA)),
        ),
        (
            "## Nodes: refused",
            "A node that is given one of these, and not with an empty value or `false`, does not start.",
            ("setting", "why"),
            ((f"`{name}`", reason) for name, reason in sorted(REFUSED.items())),
        ),
        (
            "## Nodes: without an effect",
            "Accepted, named in a warning when the node starts, returned by DescribeConfigs, and without effect in this release.",
            ("setting", "type", "Kafka's default", "while running"),
            ((*_facts(name), _running(name)) for name in without),
        ),
        (
            "## Groups",
            "Those of consumer groups (KIP-848) and share groups (KIP-932) have an effect, those of groups of streams have none.",
            ("setting", "type", "default", "stands in"),
            _group_rows(),
        ),
        (
            "## Subscriptions to the metrics of clients",
            "Checked and kept; no client is asked for its metrics in this release.",
            ("setting", "type", "default"),
            (
                (f"`{known.name}`", known.kind.name.lower(), _value(known.default))
                for known in known_settings("client_metrics").values()
            ),
        ),
    )
    return "\n\n".join(_section(*section) for section in sections)


def with_tables(document: str) -> str:
    """The document with the present tables between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    return replace_marked(document, BEGIN, END, f"\n\n{tables()}\n\n")


def _section(title: str, words: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [title, "", *([words, ""] if words else [])]
    lines.append(f"| {' | '.join(columns)} |")
    lines.append(f"|{' --- |' * len(columns)}")
    lines += (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join(lines)


def _topic_rows() -> Iterable[tuple[str, ...]]:
    for name, setting in sorted(TOPIC_SETTINGS.items()):
        known = known_settings("topic").get(name)
        node = "" if setting.broker_name is None else f"`{setting.broker_name}`"
        default = getattr(TopicSettings(), setting.field) if known is None else known.default
        yield f"`{name}`", setting.kind.name.lower(), _value(default), node, setting.doc


def _broker_row(name: str) -> tuple[str, ...]:
    if name in DYNAMIC_ONLY:
        return (
            f"`{name}`",
            DYNAMIC_ONLY[name].kind.name.lower(),
            "",
            "each, all; never in a file",
            DYNAMIC_ONLY[name].doc,
        )
    if name in ASKED_OF_METADATA:
        setting = ASKED_OF_METADATA[name]
        scope = "each" if name == DRAINING else "all"
        return f"`{name}`", setting.kind.name.lower(), "", f"{scope}; never in a file", setting.doc
    setting = BROKER_SETTINGS[name]
    if name not in known_settings("broker"):
        running = OURS_WHILE_RUNNING.get(name, "no")
        return f"`{name}`", setting.kind.name.lower(), "", running, setting.doc
    return (*_facts(name), _running(name), setting.doc)


def _facts(name: str) -> tuple[str, str, str]:
    known = known_settings("broker")[name]
    return f"`{name}`", known.kind.name.lower(), _value(known.default)


def _running(name: str) -> str:
    """The cell that says if a setting can be changed while the node runs, and at which scope."""
    known = known_settings("broker")[name]
    if name in NOT_WHILE_RUNNING:
        return "refused"
    if known.read_only:
        return "no"
    if name in BROKER_SETTINGS and name not in EFFECTIVE_AT_ONCE and name not in FROM_METADATA:
        return "taken"
    return {Scope.CLUSTER: "each, all", Scope.BROKER: "each", Scope.LISTENER: "each listener"}[known.scope]


def _group_rows() -> Iterable[tuple[str, ...]]:
    for name, entry in sorted(group_settings().items()):
        node = "" if entry.broker_name is None else f"`{entry.broker_name}`"
        yield f"`{name}`", entry.setting.kind.name.lower(), _value(entry.default), node


def _value(default: str | None) -> str:
    return "" if default is None else "(empty)" if default == "" else f"`{default}`"


if __name__ == "__main__":
    sys.exit(main(__doc__, "tools.settings_table", {DOCUMENT: with_tables}))
