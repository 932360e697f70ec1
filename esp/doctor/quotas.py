"""Rules about the quotas of clients."""

from collections.abc import Iterator
from typing import Final

from esp.doctor.rule import Hit, Place, PlaceKind, Rule, Severity, shell_word
from esp.doctor.snapshot import Snapshot
from esp.model.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity

BATCH_BYTES: Final = 16_384
"""``batch.size`` of Java's producers, if they are not told otherwise."""

WINDOWS_S: Final = 10
"""The time over which brokers take a rate at least: what it allows may come at once."""

REQUEST_TIMEOUT_S: Final = 30
"""``request.timeout.ms`` of clients, if they are not told otherwise."""


def _below_a_batch(snapshot: Snapshot) -> Iterator[Hit]:
    for entity, quotas in snapshot.client_quotas.items():
        for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE):
            quota = quotas.get(key)
            if quota is None or quota * (WINDOWS_S + REQUEST_TIMEOUT_S) >= BATCH_BYTES:
                continue
            waits_s = BATCH_BYTES / quota - WINDOWS_S
            yield Hit(
                Place(PlaceKind.CLIENT, _name(entity)),
                f"{key} is {quota:g}: after a batch of {BATCH_BYTES} bytes the connection waits for {waits_s:.0f} s",
                f"`esp quotas remove {_options(entity)} {key}`",
            )


def _name(entity: QuotaEntity) -> str:
    return ",".join(f"{part.type}={'<default>' if part.name is None else part.name}" for part in entity)


def _options(entity: QuotaEntity) -> str:
    """The entity as ``esp quotas`` takes it."""
    return " ".join(
        f"--{part.type}-default" if part.name is None else f"--{part.type} {shell_word(part.name)}" for part in entity
    )


RULES: Final = (
    Rule(
        "quota-below-a-batch",
        Severity.WARNING,
        "quotas that no batch fits into",
        "One batch is throttled for longer than clients wait for an answer: producers and consumers time out, and no error says why.",
        "`esp quotas list`, then a higher quota, or `esp quotas remove`",
        _below_a_batch,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
