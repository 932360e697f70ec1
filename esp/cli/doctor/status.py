"""The exit status of ``esp doctor``, and the options for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Final

import typer

from esp.cli.output import print_error
from esp.doctor.rule import Severity
from esp.model.errors import OperatorError

FOUND: Final = 1
"""Something as bad as ``--fail-on`` says was found."""
NOT_LOOKED: Final = 2
"""Nothing can be said of the cluster; the same that a wrong option has."""


class FailOn(StrEnum):
    """From which severity on the exit status tells of findings."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"

    def counts(self, severity: Severity) -> bool:
        """True if a finding of that severity makes a failure."""
        return self is not FailOn.NEVER and severity.is_at_least(Severity(self.value))


FailOnOption = Annotated[
    FailOn, typer.Option("--fail-on", help="Exit with status 1 if a finding is at least this severe.")
]
Shown = Annotated[int, typer.Option("--show", metavar="N", min=1, help="Number of places to print for each finding.")]


@contextmanager
def looking() -> Iterator[None]:
    """Print an error that prevents the examination, and exit with the status ``NOT_LOOKED``."""
    try:
        yield
    except OperatorError as error:
        print_error(error.problem, error.remedy)
        raise typer.Exit(NOT_LOOKED) from error
