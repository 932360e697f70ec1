"""All rules of the doctor, and their findings in a cluster."""

from collections.abc import Iterable, Mapping
from typing import Final

from esp.doctor import (
    availability,
    balance,
    brokers,
    copies,
    moves,
    queues,
    quorum,
    quotas,
    readers,
    security,
    transactions,
    trash,
)
from esp.doctor.rule import Finding, Rule, Severity
from esp.doctor.snapshot import Snapshot

RULES: Final[Mapping[str, Rule]] = {
    rule.name: rule
    for severity in Severity
    for family in (
        availability,
        transactions,
        brokers,
        quorum,
        security,
        moves,
        copies,
        balance,
        readers,
        queues,
        trash,
        quotas,
    )
    for rule in family.RULES
    if rule.severity is severity
}
"""By name, in the order in which findings are shown: the worst first."""


def examine(snapshot: Snapshot, rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """The findings of some rules, in their order; a rule that finds nothing is left out."""
    found = ((rule, tuple(rule.check(snapshot))) for rule in rules)
    return tuple(Finding(rule, hits) for rule, hits in found if hits)
