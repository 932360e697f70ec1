"""FetchSnapshot (59), versions 0-1: a member of the quorum that is too far behind the log fetches a snapshot, piece by piece (KIP-630)."""

from typing import Any

from kio.schema.fetch_snapshot.v1.response import FetchSnapshotResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.answers import fetch_snapshot_answer, read_fetch_snapshot
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, _request: Request, message: Any) -> FetchSnapshotResponse:
    """Answer with a piece, from the position that was asked for."""
    return fetch_snapshot_answer(
        await services.raft.request(read_fetch_snapshot(message), messages.FetchSnapshotResponse)
    )
