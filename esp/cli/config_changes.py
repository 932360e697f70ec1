"""Changes of settings as ``kafka-configs`` takes them: ``k=v,k=[a,b]``, and files of them. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from esp.model.errors import OperatorError
from esp.model.properties import parse_properties

_COMMA: Final = re.compile(r",(?![^\[\]]*\])")
"""A comma that stands in no brackets."""


def parse_added(text: str) -> dict[str, str]:
    """Read ``--add-config``; brackets around a value, which let it hold commas, are taken away.

    Raises:
        OperatorError: a part is not of the form ``name=value``.
    """
    added: dict[str, str] = {}
    for part in _COMMA.split(text):
        name, separator, value = (each.strip() for each in part.partition("="))
        if not separator or not name:
            raise OperatorError(
                f"--add-config {part.strip()}: not of the form name=value",
                "Write name=value,name=value; a value with commas stands in brackets: cleanup.policy=[compact,delete]",
            )
        added[name] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return added


def parse_file(text: str) -> dict[str, str]:
    """Read ``--add-config-file``, which has the form of Java's properties files.

    Raises:
        OperatorError: a line cannot be read.
    """
    try:
        return {entry.name: entry.value for entry in parse_properties(text)}
    except ValueError as error:
        raise OperatorError(f"--add-config-file: {error}", "Write one name=value a line.") from error


def parse_deleted(text: str) -> list[str]:
    """Read ``--delete-config``: names with commas between them."""
    return [name for name in map(str.strip, text.split(",")) if name]


def require_disjoint(added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Look whether the changes make sense together.

    Raises:
        OperatorError: there are none, or a setting is both set and deleted.
    """
    if not added and not deleted:
        raise OperatorError(
            "--alter needs --add-config, --add-config-file or --delete-config",
            "For example --add-config retention.ms=-1",
        )
    both = sorted(added.keys() & set(deleted))
    if both:
        raise OperatorError(f"{', '.join(both)}: both added and deleted", "Give each setting once.")
