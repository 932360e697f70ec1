"""One row of the table of cases: a request that both brokers are sent in each version."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from esp.protocol.registry import SERVED, ApiKey, ListenerKind
from tests.conformance.comparer.target import Target

Content = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A request.

    Fields are named as in kio's classes; those that a version lacks are left out, others have their defaults. Where the content depends on
    the broker (ids) or the version, it is a function of both.
    """

    name: str
    key: ApiKey
    content: Content | Callable[[Target, int], Content]
    first_version: int = 0
    last_version: int = 99
    listener: ListenerKind = ListenerKind.BROKER
    """Whom it is sent to."""
    reads_a_change: bool = False
    """Reads what a case before it changed: Kafka answers a change before its broker has applied it, so that Kafka is asked until it has."""

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""
        return SERVED[self.key].name

    @property
    def label(self) -> str:
        """What reports call the API at this listener."""
        return self.api_name if self.listener is ListenerKind.BROKER else f"{self.api_name} ({self.listener.value})"

    @property
    def versions(self) -> range:
        """The served versions that it is for."""
        api = SERVED[self.key]
        return range(max(api.min_version, self.first_version), min(api.max_version, self.last_version) + 1)

    def only(self, version: int) -> "Case":
        """This case in one of its versions."""
        return replace(self, first_version=version, last_version=version)

    def content_for(self, target: Target, version: int) -> Content:
        """What the request says."""
        return self.content(target, version) if callable(self.content) else self.content
