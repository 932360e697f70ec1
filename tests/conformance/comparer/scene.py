"""One row of the table of scenes: a request that needs a state of its own, made by requests before it and read by requests after it."""

from collections.abc import Callable
from dataclasses import dataclass

from esp.protocol.registry import SERVED, ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.target import Target

Play = Callable[[Target, str, int], Plain]
"""Plays a scene at a broker, under a name that no other scene has, with a version of the API; returns everything that is to be compared."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene; the two brokers are to answer alike, in every version."""

    name: str
    key: ApiKey
    play: Play
    first_version: int = 0
    last_version: int = 99

    @property
    def label(self) -> str:
        """Kafka's name of the API."""
        return SERVED[self.key].name

    @property
    def versions(self) -> range:
        """The served versions that it is for."""
        api = SERVED[self.key]
        return range(max(api.min_version, self.first_version), min(api.max_version, self.last_version) + 1)

    def unique_name(self, version: int) -> str:
        """The name under which the scene is played in a version."""
        return f"{self.label}, {self.name}, version {version}"

    def answer_of(self, target: Target, version: int) -> Plain:
        """The answers of a broker, its producer ids by their names."""
        return self.play(target, self.unique_name(version), version)
