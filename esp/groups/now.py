"""The moment at which a coordinator is called."""

from typing import NamedTuple


class Now(NamedTuple):
    """Both clocks of the node, read once for one call."""

    monotonic_us: int
    """What timeouts of members are counted in; never goes back."""
    wall_ms: int
    """Milliseconds since the Unix epoch: when offsets were committed, and when they expire. It may jump both ways."""
