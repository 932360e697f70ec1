"""The short way of requests that are like earlier ones of their connection (decision 25)."""

from typing import Protocol

from esp.model.buffers import Buffer


class Shortcut(Protocol):
    """Answers requests of one connection that are like earlier ones, without the header, the dispatcher and the handler's decoding."""

    api_key: int
    """The key of the API of the requests that it answers."""

    body_offset: int
    """The place in the frames that it answers at which the body begins."""

    def answer(self, frame: memoryview) -> Buffer | None:
        """Return the whole answer, byte for byte that of the ordinary way, or None, with nothing done, if the request must go that way.

        Args:
            frame: what may be one whole frame, its length included.
        """
