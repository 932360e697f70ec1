"""The machine and the process that a node lives in."""

from typing import NoReturn, Protocol


class Host(Protocol):
    """What a node can know of its machine, and how it ends itself."""

    boot_id: str
    """Changes with every start of the machine, never while it runs."""

    name: str
    """The machine's own host name."""

    def fatal(self, reason: str) -> NoReturn:
        """Stop the node at once, without an orderly shutdown: its own state cannot be trusted any more."""
