"""The machine and the process that a node lives in."""

from typing import NoReturn, Protocol


class Host(Protocol):
    """The node's view of its machine, and the way in which it ends its own process."""

    boot_id: str
    """Changes with every start of the machine, never while it runs."""

    name: str
    """The machine's own host name."""

    def fatal(self, reason: str) -> NoReturn:
        """Stop the node at once, without a clean shutdown: its own state cannot be trusted any more."""
