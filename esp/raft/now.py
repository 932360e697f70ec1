"""The moment at which the core is called."""

from typing import NamedTuple


class Now(NamedTuple):
    """Both clocks of the node, read once for one call."""

    monotonic_us: int
    """What timeouts are counted in; never goes back."""
    wall_ms: int
    """Milliseconds since the Unix epoch; it stands in batches and means nothing to the protocol, since it may jump."""
