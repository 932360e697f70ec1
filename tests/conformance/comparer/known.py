"""The differences that stay, with their reasons: a table of docs/PROTOCOL.md."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from tests.conformance.comparer.compare import Difference

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "PROTOCOL.md"
HEADING: Final = "| API | request | where | reason |"
AT_LEVEL_1: Final = "| API | request at level 1 | where | reason |"
WITHOUT_RIGHTS: Final = "| API | request without a permission | where | reason |"


class Reason(NamedTuple):
    """One row: patterns of APIs, cases and places in answers, and the reason."""

    api: str
    case: str
    place: str
    reason: str

    def explains(self, difference: Difference) -> bool:
        """Whether the row is about this difference."""
        return all(
            any(fnmatchcase(value, pattern.strip()) for pattern in patterns.split(","))
            for value, patterns in (
                (difference.api, self.api),
                (difference.case, self.case),
                (_flat(difference.place), self.place),
            )
        )


class Known:
    """All rows."""

    def __init__(self, reasons: list[Reason]) -> None:
        self.reasons = reasons
        self.used: set[Reason] = set()
        """Rows that explained something."""

    @classmethod
    def read(cls, document: str | None = None, title: str = HEADING) -> "Known":
        """The rows of the document as it stands, of the table with a title row."""
        text = DOCUMENT.read_text() if document is None else document
        _, heading, rest = text.partition(title)
        assert heading, f"{DOCUMENT} has no table of differences: {title}"
        rows = []
        for line in rest.splitlines()[2:]:
            if not line.startswith("|"):
                break
            api, case, place, reason = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
            rows.append(Reason(api, case, place, reason))
        return cls(rows)

    def explains(self, difference: Difference) -> bool:
        """Whether there is a reason for a difference."""
        for reason in self.reasons:
            if reason.explains(difference):
                self.used.add(reason)
                return True
        return False


def _flat(place: str) -> str:
    """A place with its brackets as dots: patterns know brackets as sets of characters."""
    return place.replace("[", ".").replace("]", "")
