"""Text files that are named on the command line, and the places that their references may lead to."""

import os
from typing import Final

from esp.model.errors import OperatorError
from esp.settings.references import Places


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


def _read_place_blocking(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


PLACES: Final = Places(_read_place_blocking, os.environ)
"""This machine's files, and the environment of this process."""
