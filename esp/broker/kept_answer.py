"""The short way of requests that ask the same again and again and are answered the same, such as the heartbeats of a member at rest.

A cold handler offers its answer for that by a function, which it leaves on the request (:attr:`esp.broker.request.Request.repeat`). The
function is called for each later request of the connection that is the same but for its correlation id. It does what the request does
beside being answered, and returns True, if the answer is the same now; else it returns False, and the request takes the ordinary way, which
may do again what the function has done. So nothing is kept that may have changed unseen: all that the answer rests on is looked at each
time, except for the terms on which clients may ask at all, which are compared.
"""

from collections.abc import Callable
from typing import Final

from esp.broker.request import Request
from esp.model.buffers import Buffer
from esp.protocol.headers import pack_request_header

_LENGTH_SIZE: Final = 4
_CORRELATION_ID: Final = slice(8, 12)
"""Its place in the frame of a request, behind length, API key and version."""

_ANSWERED_ID: Final = slice(4, 8)
"""Its place in the frame of an answer, behind the length."""


class KeptAnswer:
    """One request of a connection, and its answer; see :class:`esp.broker.shortcut.Shortcut`.

    Args:
        request: was answered at once, and offers that its answer is kept.
        body: its body, which is short.
        answer: the whole answer.
        terms: the terms on which the client may ask: the answer is kept only as long as they are the same.
    """

    __slots__ = (
        "_agreed",
        "_answer_rest",
        "_answer_start",
        "_repeat",
        "_rest",
        "_size",
        "_start",
        "_terms",
        "api_key",
        "body_offset",
    )

    def __init__(self, request: Request, body: Buffer, answer: bytes, terms: Callable[[], object]) -> None:
        assert request.repeat is not None, "the handler says whether its answer may be kept"
        self.api_key = request.api_key
        """See :class:`esp.broker.shortcut.Shortcut`."""
        # Packed again from what was decoded: a request with more in its header than that is never taken for the same.
        header = pack_request_header(request.api_key, request.api_version, 0, request.client_id)
        self.body_offset = _LENGTH_SIZE + len(header)
        """See :class:`esp.broker.shortcut.Shortcut`."""
        frame = (len(header) + len(body)).to_bytes(_LENGTH_SIZE, "big") + header + bytes(body)
        self._size = len(frame)
        self._start = frame[: _CORRELATION_ID.start]
        self._rest = frame[_CORRELATION_ID.stop :]
        self._answer_start = answer[: _ANSWERED_ID.start]
        self._answer_rest = answer[_ANSWERED_ID.stop :]
        self._repeat = request.repeat
        self._terms = terms
        self._agreed = terms()

    def answer(self, frame: memoryview) -> bytes | None:
        """See :class:`esp.broker.shortcut.Shortcut`."""
        if len(frame) != self._size:
            return None
        sent = frame.tobytes()  # bytes compare faster than views
        if sent[_CORRELATION_ID.stop :] != self._rest or sent[: _CORRELATION_ID.start] != self._start:
            return None
        if self._terms() != self._agreed or not self._repeat():
            return None
        return b"".join((self._answer_start, sent[_CORRELATION_ID], self._answer_rest))


def keep_answer(request: Request, body: Buffer, answer: bytes, terms: Callable[[], object]) -> None:
    """Let the connection of a request answer the same one by itself from now on, unless it has another shortcut."""
    client = request.client
    if client.shortcut is None or isinstance(client.shortcut, KeptAnswer):
        client.shortcut = KeptAnswer(request, body, answer, terms)
