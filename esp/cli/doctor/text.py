"""The doctor's findings, in lines for people and in values for programs."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.text import Text

from esp.cli.output import console, in_one_line, print_columns, print_json, print_line
from esp.doctor.rule import Finding, Rule, Severity
from esp.doctor.snapshot import Snapshot

STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_INDENT: Final = " " * 9
_LABEL: Final = 5
"""Width of ``why`` and ``fix``, so that what they say stands in a column."""


def print_examination(snapshot: Snapshot, findings: Sequence[Finding], shown: int, servers: str) -> None:
    """Print what was found, at most so many places of each; at the end how much that is."""
    for finding in findings:
        print_headline(finding.rule.severity, f"{finding.rule.name}: {finding.rule.title} ({len(finding.hits)})")
        width = min(30, max(len(str(hit.place)) for hit in finding.hits[:shown]))
        print_folded([f"{str(hit.place).ljust(width)}  {hit.detail}" for hit in finding.hits], shown)
        print_labelled("why", finding.rule.why)
        remedies = list(dict.fromkeys(hit.remedy for hit in finding.hits))
        for remedy in remedies[:shown]:
            _print_remedy(with_servers(remedy, servers))
        if len(remedies) > shown:
            print_labelled("", f"... and {len(remedies) - shown} more of the kind; --json has them all")
        print_line("")
    counts = Counter(finding.rule.severity for finding in findings)
    counted = ", ".join(
        f"{counts[severity]} {severity.value}{'s' if counts[severity] > 1 else ''}"
        for severity in Severity
        if counts[severity]
    )
    print_line(f"{counted or 'Nothing found'}; examined {_size(snapshot)}")


def print_headline(severity: Severity, text: str) -> None:
    """Print a line that begins with a severity."""
    line = Text(severity.value.upper().ljust(len(_INDENT)), style=STYLES[severity])
    console.print(line.append(in_one_line(text), style="bold"), soft_wrap=True)


def print_folded(lines: Sequence[str], shown: int) -> None:
    """Print the first lines below a headline, and how many more there are."""
    for line in lines[:shown]:
        print_line(_INDENT + in_one_line(line))
    if len(lines) > shown:
        print_line(f"{_INDENT}... and {len(lines) - shown} more")


def print_labelled(label: str, text: str) -> None:
    """Print a line below a headline that begins with a word."""
    console.print(Text(_INDENT).append(label.ljust(_LABEL), style="dim").append(in_one_line(text)), soft_wrap=True)


def _print_remedy(remedy: str) -> None:
    """Print words as they are, and each command on a line of its own, ready to paste."""
    label = "fix"
    for number, part in enumerate(remedy.split("`")):
        text = part.strip(" ;,")
        if text:
            print_labelled(label, text if label or not number % 2 else f"  {text}")
            label = ""


def with_servers(remedy: str, servers: str) -> str:
    """A remedy whose commands, which stand in backticks, name the bootstrap servers."""
    return re.sub(r"`(esp [^`]+)`", rf"`\1 --bootstrap-server {servers}`", remedy)


def print_rules(rules: Iterable[Rule], json: bool) -> None:
    """Print the table of rules."""
    if json:
        print_json([_rule_as_json(rule) for rule in rules])
        return
    print_columns(
        [("Severity", 8), ("Rule", 0), ("Finds", 0)],
        [[rule.severity.value, rule.name, rule.title] for rule in rules],
    )


def print_rule(rule: Rule) -> None:
    """Print what a rule is about."""
    print_headline(rule.severity, f"{rule.name}: {rule.title}")
    print_labelled("why", rule.why)
    print_labelled("fix", rule.remedy)


def examination_as_json(snapshot: Snapshot, findings: Iterable[Finding], servers: str) -> dict[str, Any]:
    """Everything that was found, in values; commands stand in backticks."""
    return {
        "cluster_id": snapshot.view.cluster_id,
        "looked_at": {
            "brokers": len(snapshot.view.brokers),
            "topics": len(snapshot.topics),
            "partitions": len(snapshot.view.partitions),
        },
        "findings": [
            _rule_as_json(finding.rule)
            | {
                "places": [
                    {
                        "kind": hit.place.kind.value,
                        "name": hit.place.name,
                        "detail": hit.detail,
                        "remedy": with_servers(hit.remedy, servers),
                    }
                    for hit in finding.hits
                ]
            }
            for finding in findings
        ],
    }


def _rule_as_json(rule: Rule) -> dict[str, Any]:
    return {"rule": rule.name, "severity": rule.severity.value, "title": rule.title, "why": rule.why}


def _size(snapshot: Snapshot) -> str:
    partitions = len(snapshot.view.partitions)
    return f"{len(snapshot.view.brokers)} brokers, {len(snapshot.topics)} topics, {partitions} partitions"
