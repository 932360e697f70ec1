"""The answers to requests that take several writes, and share coordinators, any of which may fail or take too long."""

from collections.abc import Callable

from esp.groups.effects import Outbox
from esp.groups.responses import Result
from esp.model.errors import ErrorCode

Failed = Callable[[ErrorCode], Result]
"""Makes the answer of a request that is refused as a whole."""


class Replies:
    """The requests that are not answered yet.

    Args:
        outbox: where the answers go.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._open: dict[Reply, None] = {}

    def open(self, ticket: object, failed: Failed) -> "Reply":
        """A request has come, which is answered by :meth:`Reply.give` or :meth:`Reply.fail`, or when the coordinator ends."""
        reply = Reply(self, ticket, failed)
        self._open[reply] = None
        return reply

    def close(self, reply: "Reply", ticket: object, result: Result) -> None:
        """Answer, unless that was done: what comes after the first answer is not told."""
        if self._open.pop(reply, reply) is None:
            self._outbox.answer(ticket, result)

    def abandon(self, error: ErrorCode) -> None:
        """The coordinator ends: nothing more comes of these requests."""
        for reply in list(self._open):
            reply.fail(error)


class Reply:
    """The answer to one request; see :class:`Replies`."""

    def __init__(self, replies: Replies, ticket: object, failed: Failed) -> None:
        self._replies = replies
        self._ticket = ticket
        self._failed = failed

    def give(self, result: Result) -> None:
        """Answer, unless that was done."""
        self._replies.close(self, self._ticket, result)

    def fail(self, error: ErrorCode) -> None:
        """Answer with an error of the whole request, unless it is answered."""
        self.give(self._failed(error))
