"""Fetch (1), versions 4-18, on the controller listener: other members of the quorum fetch the metadata log, and nothing else (KIP-595)."""

from typing import Any

from kio.schema.fetch.v18.response import FetchResponse

from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices
from esp.broker.quorum.answers import fetch_answer, read_fetch
from esp.raft import messages


async def handle(services: ControllerServices, _request: Request, message: Any) -> FetchResponse:
    """Let the core answer, at once or when there is something new."""
    return fetch_answer(await services.raft.request(read_fetch(message), messages.FetchResponse))
