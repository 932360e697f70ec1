"""Messages between nodes: they wait until a script delivers them, in the order in which they were sent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.scenarios.script import Stage, verb

CONTROLLER: Final = 0
"""The controller's number, where it is a party of its own; ``c`` in scripts."""


def name_of(party: int) -> str:
    """A node as outcomes name it."""
    return "controller" if party == CONTROLLER else f"n{party}"


def number_of(party: str) -> int:
    """The number that a script means."""
    return CONTROLLER if party == "c" else int(party)


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message on its way."""

    sender: int
    receiver: int
    api: str
    line: str
    """What is said of it when it arrives, or is lost."""
    arrive: Callable[[], None]
    about: object = None
    """The request that it carries, or answers, for the stage that sent it."""


class Courier(Stage):
    """A stage whose nodes send each other messages."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Message] = []
        self._cuts: set[frozenset[int]] = set()
        self._alone: set[int] = set()

    def post(self, message: Message) -> None:
        """Send a message."""
        self._waiting.append(message)

    def withdraw(self, api: str, *, to: int) -> None:
        """Forget messages that wait, since a newer one says all that they say."""
        self._waiting = [each for each in self._waiting if (each.api, each.receiver) != (api, to)]

    def is_cut(self, one: int, other: int) -> bool:
        """Whether nothing gets from one node to another."""
        return bool({one, other} & self._alone) or frozenset((one, other)) in self._cuts

    def on_lost(self, message: Message) -> None:
        """A message was lost."""

    def on_healed(self) -> None:
        """All nodes reach one another again."""

    @verb
    def deliver(self, api: str = "", *, from_: str = "", to: str = "") -> None:
        """Deliver what waits, and what is sent in turn, until nothing is left; or only messages of one API, sender or receiver."""
        for _ in range(1000):
            message = next((each for each in self._waiting if self._matches(each, api, from_, to)), None)
            if message is None:
                return
            self._waiting.remove(message)
            if self.is_cut(message.sender, message.receiver):
                self.say(f"{message.line} (lost)")
                self.on_lost(message)
            else:
                self.say(message.line)
                message.arrive()
        raise AssertionError("the nodes never fall silent")

    @verb
    def cut(self, node: str, *, from_: str = "") -> None:
        """Let nothing get to or from a node; or nothing between two. ``c`` is the controller."""
        if from_:
            self._cuts.add(frozenset((number_of(node), number_of(from_))))
        else:
            self._alone.add(number_of(node))

    @verb
    def heal(self, node: str = "") -> None:
        """Let all nodes reach one another again; or one node all others."""
        healed = {number_of(node)} if node else {party for cut in self._cuts for party in cut} | self._alone
        self._cuts = {cut for cut in self._cuts if not cut & healed}
        self._alone -= healed
        self.on_healed()

    @staticmethod
    def _matches(message: Message, api: str, sender: str, receiver: str) -> bool:
        return (
            api in ("", message.api)
            and (not sender or number_of(sender) == message.sender)
            and (not receiver or number_of(receiver) == message.receiver)
        )
