"""Producer epochs that begin just below the last one: what takes an application more than 32,000 transactions or restarts (TXN-3)."""

import contextlib
from collections.abc import Iterator

from esp.model.now import Now
from esp.transactions import initialising
from esp.transactions.transaction import Transaction


@contextlib.contextmanager
def late_epochs(first_epoch: int) -> Iterator[None]:
    """Let the producers of new transactional ids begin with this epoch until the block ends."""
    created = initialising.created  # type: ignore[attr-defined]  # the name under which that module calls it

    def created_late(producer_id: int, timeout_ms: int, now: Now) -> Transaction:
        late: Transaction = created(producer_id, timeout_ms, now)._replace(producer_epoch=first_epoch)
        return late

    initialising.created = created_late  # type: ignore[attr-defined]
    try:
        yield
    finally:
        initialising.created = created  # type: ignore[attr-defined]
