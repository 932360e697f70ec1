"""Every log start that rises, just before it does: records may be committed and go within one turn of the loop."""

import contextlib
from collections.abc import Callable, Iterator

from esp.storage.log import Log


class RisingStarts:
    """Tells of each log that is about to start later.

    Args:
        tell: called with the log, and where it will start.
    """

    def __init__(self, tell: Callable[[Log, int], None]) -> None:
        self._tell = tell

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all logs of this process from outside, until the block ends."""
        raise_log_start = Log.raise_log_start

        def watch(log: Log, offset: int) -> None:
            if offset > log.log_start_offset:
                self._tell(log, offset)
            raise_log_start(log, offset)

        Log.raise_log_start = watch  # type: ignore[method-assign, assignment]  # of the class
        try:
            yield
        finally:
            Log.raise_log_start = raise_log_start  # type: ignore[method-assign]
