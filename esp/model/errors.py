"""Errors divided by blame.

* The peer's fault is an :class:`ApiError` with the wire code that the peer is answered (``ErrorCode``, Kafka's own table).
* The operator's is an :class:`OperatorError` that names the thing and the remedy; the command line prints it and exits with 1.
* Ours is an assertion or any other exception: it stops the node (:meth:`esp.ports.host.Host.fatal`), never half of it.
"""

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ["ApiError", "CorruptionError", "ErrorCode", "OperatorError"]


MESSAGE_CHARACTERS_MAX: Final = 4000
"""Messages quote what the peer sent, which may be long; texts in old versions of answers have at most 32767 bytes."""


class ApiError(Exception):
    """A request, or one part of it, is refused with a code of Kafka's protocol.

    Args:
        code: the code that the peer receives.
        message: the text beside the code where the answer has room for one; the peer receives its beginning.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = None if message is None else message[:MESSAGE_CHARACTERS_MAX]


class OperatorError(Exception):
    """The node cannot do what it was configured or asked to do, and its operator can put that right.

    Args:
        problem: the fault, naming the file, setting or address.
        remedy: the steps that remove it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}\n{remedy}")
        self.problem = problem
        self.remedy = remedy


class CorruptionError(Exception):
    """Bytes that were read back are not those that were written: a bad checksum, length, magic or order."""
