"""An invariant that did not hold."""


class ViolationError(Exception):
    """Ends the run in which it was found.

    Args:
        invariant: its name.
        who: the node, client or partition at which it was noticed.
        details: what was found and what should have been.
    """

    def __init__(self, invariant: str, who: str, details: str) -> None:
        super().__init__(f"{invariant} at {who}: {details}")
        self.invariant = invariant
        self.who = who
        self.details = details

    def __reduce__(self) -> tuple[type["ViolationError"], tuple[str, str, str]]:
        return ViolationError, (self.invariant, self.who, self.details)


def require(holds: bool, invariant: str, who: str, details: str) -> None:
    """Raise ViolationError unless it holds. For texts that cost nothing; others are made behind an ``if``."""
    if not holds:
        raise ViolationError(invariant, who, details)
