"""The entities of quotas in words."""

from collections.abc import Iterable
from typing import Final

from esp.model.client_quotas import CLIENT_ID, IP, USER, QuotaEntity

TYPES: Final = {USER: "user", CLIENT_ID: "client id", IP: "address"}


def in_words(entity: QuotaEntity) -> str:
    """An entity for people: ``user alice, client id (default)``."""
    return of_parts((part.type, "(default)" if part.name is None else part.name) for part in entity)


def of_parts(parts: Iterable[tuple[str, str]]) -> str:
    """Types and names for people, the user first."""
    order = list(TYPES)
    ordered = sorted(parts, key=lambda part: order.index(part[0]) if part[0] in TYPES else len(order))
    return ", ".join(f"{TYPES.get(kind, kind)} {name}" for kind, name in ordered)
