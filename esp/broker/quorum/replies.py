"""Gives requests of the quorum their answers, with the records and pieces of snapshots that go with them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from esp.broker.quorum.files import RaftFiles
from esp.model.errors import ApiError, ErrorCode
from esp.raft.effects import ReadRecords, ReadSnapshot, Reply
from esp.raft.messages import FetchResponse, FetchSnapshotResponse, Response
from esp.raft.node import RaftNode
from esp.raft.roles import Role


class RaftReplies:
    """Does the core's replies; a token is the future that waits for the answer.

    Args:
        node: the core.
        files: where records and snapshots are read.
        run: starts a coroutine beside everything else.
    """

    def __init__(self, node: RaftNode, files: RaftFiles, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._node = node
        self._files = files
        self._run = run

    def reply(self, reply: Reply) -> None:
        """Answer now, or once the disk has worked."""
        response, read = reply.response, reply.read
        if isinstance(read, ReadRecords):
            assert isinstance(response, FetchResponse)
            records = self._files.read_records(read)
            if records is None:
                self._run(self._reply_cold(reply.token, response, read))
                return
            response = replace(response, records=records)
        elif isinstance(read, ReadSnapshot):
            assert isinstance(response, FetchSnapshotResponse)
            self._run(self._reply_with_piece(reply.token, response, read))
            return
        _answer(reply.token, response)

    async def _reply_cold(self, token: object, response: FetchResponse, read: ReadRecords) -> None:
        """The log may have been cut while it was read, if this node leads no more: only a leader's records count."""
        try:
            records = await self._files.read_records_cold(read)
        except ApiError:
            if self._still_leads(response):
                raise
            records = b""
        if self._still_leads(response):
            _answer(token, replace(response, records=records))
        else:
            node = self._node
            refusal = FetchResponse(
                error=ErrorCode.not_leader_or_follower,
                leader_epoch=node.epoch,
                leader_id=node.leader_id,
                leader_address=node.leader_address,
            )
            _answer(token, refusal)

    async def _reply_with_piece(self, token: object, response: FetchSnapshotResponse, read: ReadSnapshot) -> None:
        _answer(token, await self._files.read_snapshot(response, read))

    def _still_leads(self, response: Response) -> bool:
        return self._node.role is Role.LEADER and self._node.epoch == response.leader_epoch


def _answer(token: object, response: Response) -> None:
    assert isinstance(token, asyncio.Future)
    if not token.done():
        token.set_result(response)
