"""The moment at which the core is called."""

from typing import NamedTuple


class Now(NamedTuple):
    """Both clocks of the node, read once for one call."""

    monotonic_us: int
    """The time that timeouts are counted in; never goes back."""
    wall_ms: int
    """Milliseconds since the Unix epoch: stands in batches and says when offsets were committed. It may jump both ways."""
