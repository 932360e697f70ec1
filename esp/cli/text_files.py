"""Text files that are named on the command line."""

from esp.model.errors import OperatorError


def read_text(path: str) -> str:
    """Return what is in a file.

    Raises:
        OperatorError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
        raise OperatorError(f"{path} cannot be read: {reason}", "Give the path of a readable file.") from error
