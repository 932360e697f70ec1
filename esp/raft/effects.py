"""The steps that the raft core asks of its driver, to be done in the order in which they stand.

Each ends before the next begins, except :class:`Flush` and :class:`Send`, which only begin something.
"""

from typing import NamedTuple

from msgspec import Struct

from esp.model.buffers import Buffer
from esp.model.ids import LeaderEpoch, NodeId
from esp.ports.network import Address
from esp.raft.messages import Request, Response
from esp.raft.quorum_state import QuorumState
from esp.raft.snapshot import SnapshotId
from esp.records.batch_header import BatchHeader


class Persist(Struct, frozen=True):
    """Write this to ``quorum-state``, durably, before anything that follows (RAFT-1)."""

    state: QuorumState


class BeginEpoch(Struct, frozen=True):
    """Let the log begin this epoch at its end (LOG-8); on disk it stands with the flush of its first batch (LOG-10)."""

    epoch: LeaderEpoch


class Append(Struct, frozen=True):
    """Append this batch, checked, its offset and epoch stamped. ``is_fetched`` is true for a leader's batch, false for an own one."""

    batch: Buffer
    header: BatchHeader
    is_fetched: bool


class Truncate(Struct, frozen=True):
    """Cut the log back to this end offset; nothing below the high watermark is ever cut (RAFT-10)."""

    end_offset: int


class Flush(Struct, frozen=True):
    """Begin to flush the log, then report it (:meth:`~esp.raft.node.RaftNode.on_flushed`); one flush may serve many batches (SYNC-2)."""


class Peer(NamedTuple):
    """Another member: its id and its address. Bootstrap servers, whose ids are not known yet, have ids from -2 downwards."""

    node_id: NodeId
    address: Address


class Send(Struct, frozen=True):
    """Send a request; exactly one of ``on_response`` and ``on_send_failed`` follows, with the same ``peer.node_id`` and ``request``."""

    peer: Peer
    request: Request


class ReadRecords(NamedTuple):
    """Put batches of the log into ``FetchResponse.records``: from ``offset`` to ``end_offset``, at most ``max_bytes``, but at least one."""

    offset: int
    end_offset: int
    max_bytes: int


class ReadSnapshot(NamedTuple):
    """Put this piece of a snapshot into ``FetchSnapshotResponse``: ``size``, ``position`` and ``data``.

    Without such a snapshot the answer is SNAPSHOT_NOT_FOUND, with a position outside it POSITION_OUT_OF_RANGE.
    """

    snapshot_id: SnapshotId
    position: int
    max_bytes: int


class Reply(Struct, frozen=True):
    """Answer a request (the ``token`` came with it), after adding the records or bytes that are to be read."""

    token: object
    response: Response
    read: ReadRecords | ReadSnapshot | None = None


class Commit(Struct, frozen=True):
    """Everything below this offset is committed."""

    high_watermark: int


class LeaderChanged(Struct, frozen=True):
    """The member's epoch, or its leader (NO_NODE if there is none), or the leader's address has changed.

    If this node itself led the epoch before, its uncommitted records may be lost: the requests that wait for them receive an error
    (RAFT-22).
    """

    epoch: LeaderEpoch
    leader_id: NodeId
    leader_address: Address | None


class WriteSnapshotChunk(Struct, frozen=True):
    """Write a fetched piece of a snapshot at this position of its part file; position 0 begins the file anew."""

    snapshot_id: SnapshotId
    position: int
    data: Buffer


class FinishSnapshot(Struct, frozen=True):
    """All pieces are there: verify the snapshot, make it durable, cut the log fully to its end, load it (RAFT-31, RAFT-32).

    Then report it (:meth:`~esp.raft.node.RaftNode.on_snapshot_installed`), or that it was corrupt (``on_snapshot_refused``).
    """

    snapshot_id: SnapshotId


class Fatal(Struct, frozen=True):
    """State is in doubt; the node ends at once (RAFT-16)."""

    reason: str


Effect = (
    Persist
    | BeginEpoch
    | Append
    | Truncate
    | Flush
    | Send
    | Reply
    | Commit
    | LeaderChanged
    | WriteSnapshotChunk
    | FinishSnapshot
    | Fatal
)
