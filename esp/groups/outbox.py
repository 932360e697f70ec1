"""The effects of one call, as they come up; and the tickets in them, each of which is answered once."""

from esp.groups.effects import Answer, Append, Effect
from esp.groups.responses import Result


class Outbox:
    """Collects effects until the coordinator's call ends."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def append(self, effect: Append) -> None:
        """Records are to be appended."""
        self._effects.append(effect)

    def answer(self, ticket: object, result: Result) -> None:
        """A request is answered."""
        self._effects.append(Answer(ticket, result))

    def take(self) -> list[Effect]:
        """All effects so far, which are forgotten here."""
        effects, self._effects = self._effects, []
        return effects
