"""The renewal of a sink's offsets once a day: Kafka lets them expire after a week in which nothing is committed.

The first look of each run renews them as well (:meth:`esp.sink.batch_planning.BatchPlanner.plan`), since a run may be shorter than a day.
(Nodes of ESP keep them: ``offsets.retention.exempt.groups``.)
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

_INTERVAL_S: Final = 24 * 3600.0


class Renewing:
    """Renews offsets on a thread of its own, for as long as the query runs.

    Args:
        renew: renews them; may wait.
        is_running: whether the query runs.
        interval_s: the time between two renewals.
    """

    def __init__(
        self, renew: Callable[[], None], is_running: Callable[[], bool], interval_s: float = _INTERVAL_S
    ) -> None:
        self._renew = renew
        self._is_running = is_running
        self._interval_s = interval_s
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="esp-renew", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True if the query has ended, or this was stopped."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Renew no more."""
        self._is_stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped.wait(self._interval_s):
            try:
                if not self._is_running():
                    return
                self._renew()
            except Exception as error:  # the next batch commits anyway, or says what is wrong
                _log.warning("the offsets of a sink are not renewed: %s", error)
