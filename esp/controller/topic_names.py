"""Which names a topic may have: the rules and texts of Kafka's ``Topic.validate``."""

import re
from typing import Final

NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def find_name_problem(name: str) -> str | None:
    """What is wrong with a topic's name, None if nothing."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {problem}"


def unify(name: str) -> str:
    """The name as metrics show it, in which '.' and '_' are one: two topics may not share it."""
    return name.replace(".", "_")


def can_collide(name: str) -> bool:
    """Whether another name may be shown alike."""
    return "." in name or "_" in name
