"""Dead letters at a node: the way to the leaders of dead-letter queues, and counts by the groups whose records the letters are about."""

from collections import Counter
from typing import Final, NamedTuple

from esp.broker.connections.broker_peers import BrokerPeers
from esp.schemas.share_state_records import ShareStateKey


class LetterCounts:
    """Counts since the node has started, and what is still to be written."""

    def __init__(self) -> None:
        self.written: Final[Counter[str]] = Counter()
        """Letters that are committed."""
        self.lost: Final[Counter[str]] = Counter()
        """Records that were archived without a letter, as none can be written."""
        self.absent: Final[Counter[str]] = Counter()
        """Offsets that were archived without a letter, as the log has no record there any more."""
        self.requests: Final[Counter[str]] = Counter()
        """Requests to leaders of dead-letter queues."""
        self.failures: Final[Counter[str]] = Counter()
        """Requests among these that have failed."""
        self.pending: Final[dict[ShareStateKey, int]] = {}
        """The letters of each share partition that are still to be written."""

    def pending_of_groups(self) -> Counter[str]:
        """The letters that are still to be written."""
        total: Counter[str] = Counter()
        for key, count in self.pending.items():
            total[key.group_id] += count
        return total


class LetterDesk(NamedTuple):
    """A node has it from its start; all else about dead letters is loaded with the first request of a share group."""

    peers: BrokerPeers
    """The brokers of the cluster, this one too."""
    counts: LetterCounts
