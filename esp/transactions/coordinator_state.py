"""The state that the parts of a coordinator share."""

from collections.abc import Callable
from dataclasses import dataclass

from esp.transactions.directory import Directory
from esp.transactions.effects import Outbox
from esp.transactions.settings import TransactionSettings


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """The state of one coordinator, and its ways out."""

    settings: TransactionSettings
    outbox: Outbox
    directory: Directory
    feature_level: Callable[[], int]
    """Tells the cluster's ``transaction.version``."""
    take_producer_id: Callable[[], int | None]
    """Gives a producer id that no other producer has; None if there is none at hand now."""
