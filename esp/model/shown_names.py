"""Names that others chose, as they stand in a line of the log.

Clients choose the names of groups, transactional ids and users, and the subjects of certificates, and they may have any character:
with a line break in it, a name would forge a line of the log.
"""

from typing import Final

NAME_CHARACTERS_MAX: Final = 100
"""As much of a name is logged where it is quoted."""
PLAIN_CHARACTERS_MAX: Final = 256
"""Longer names are quoted, and cut off: the names of topics have at most 249 characters."""


def shown(name: str) -> str:
    """Return a name that a client chose, for the log: in quotation marks, without line breaks, and cut off where it is long."""
    return repr(name[:NAME_CHARACTERS_MAX])


def in_line(name: str) -> str:
    """Return a name for a line of the log: as it is, or as :func:`shown` where it is long or cannot be printed as it is."""
    return name if len(name) <= PLAIN_CHARACTERS_MAX and name.isprintable() else shown(name)
