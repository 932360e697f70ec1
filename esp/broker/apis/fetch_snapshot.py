"""FetchSnapshot (59), versions 0-1: a member of the quorum that is too far behind the log fetches a snapshot, piece by piece (KIP-630)."""

from typing import Any

from kio.schema.fetch_snapshot.v1.response import FetchSnapshotResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.wire.fetching import decode_fetch_snapshot_request, encode_fetch_snapshot_response
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, request: Request, message: Any) -> FetchSnapshotResponse:
    """Answer with a piece, from the position that was asked for."""
    answer = await services.raft.request(decode_fetch_snapshot_request(message), messages.FetchSnapshotResponse)
    return encode_fetch_snapshot_response(answer, request.client.listener)
