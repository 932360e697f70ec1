"""Holds answers against the rules of access that were in force at the node that gave them (INV-AUTHZ).

The rules are those of the images that the node published while the request was under way, each taken as a whole, and judged here by going
through all of them. Rules are made by one client, each once: an acknowledged rule is in force at the node that answered,
and in the end; one that was acknowledged to be removed is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from esp.broker.raft.loader import MetadataLoader
from esp.controller.image import ClusterDelta, ClusterImage
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.node import SimulatedNode

PRINCIPAL = "User:ANONYMOUS"
"""The clients whose answers are judged here: they come to listeners without log-ins."""

_INVARIANT = "INV-AUTHZ"


class Question(NamedTuple):
    """A request for which a client may need Read on a group, as it begins."""

    node: SimulatedNode
    group: str
    feed: "_Feed | None"
    """None if the node has no metadata yet."""
    begun: int
    """The place in the feed of the rules that were in force."""


@dataclass(slots=True)
class _Feed:
    """The sets of rules that one process of a node has published, the last one in force."""

    loader: MetadataLoader
    published: list[frozenset[AclBinding]] = field(default_factory=list)

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Note the rules of an image, if they differ from those before."""
        if not self.published or delta.added_acls or delta.removed_acls:
            self.published.append(frozenset(image.acls.values()))


class AccessChecker:
    """Judges the answers to clients, and holds acknowledged changes of rules against the metadata."""

    def __init__(self) -> None:
        self.judged = 0
        """Answers that were held against the rules."""
        self.unjudged = 0
        """Answers of nodes of which another process or none was known when the request was sent."""
        self._feeds: dict[int, _Feed] = {}
        self._in_force: dict[AclBinding, None] = {}
        self._removed: dict[AclBinding, None] = {}

    def ask(self, node: SimulatedNode, group: str) -> Question:
        """A request leaves for a node."""
        feed = self._feed_of(node)
        return Question(node, group, feed, len(feed.published) - 1 if feed is not None else 0)

    def on_answer(self, question: Question, host: str, *, is_denied: bool) -> None:
        """The answer has come.

        Raises:
            ViolationError: INV-AUTHZ: no rules of that time give it.
        """
        node, group, feed, begun = question
        if feed is None or self._feed_of(node) is not feed:
            self.unjudged += 1
            return
        self.judged += 1
        if any(is_allowed(rules, group, host) != is_denied for rules in feed.published[max(0, begun) :]):
            return
        verdict = "denied" if is_denied else "allowed"
        raise ViolationError(_INVARIANT, node.name, f"{verdict} group {group}, which no rules of that time do")

    def on_created(self, node: SimulatedNode, rules: Iterable[AclBinding]) -> None:
        """A node has acknowledged new rules. Raises ViolationError."""
        self._in_force.update(dict.fromkeys(rules))
        self._check_node(node)

    def on_removed(self, node: SimulatedNode, rules: Iterable[AclBinding]) -> None:
        """A node has acknowledged that rules are gone. Raises ViolationError."""
        for rule in rules:
            self._in_force.pop(rule, None)
            self._removed[rule] = None
        self._check_node(node)

    def forget(self, rules: Iterable[AclBinding]) -> None:
        """Ask nothing of these rules: a change of them may have been made or not."""
        for rule in rules:
            self._in_force.pop(rule, None)
            self._removed.pop(rule, None)

    def check_end(self, image: ClusterImage) -> None:
        """Hold the cluster's rules in the end against all that was acknowledged. Raises ViolationError."""
        self._check("the cluster", image)

    def _check_node(self, node: SimulatedNode) -> None:
        feed = self._feeds.get(node.node_id)
        if feed is not None and probe.metadata_of(node) is feed.loader:
            self._check(node.name, feed.loader.image)

    def _check(self, where: str, image: ClusterImage) -> None:
        rules = frozenset(image.acls.values())
        for rule in self._in_force:
            if rule not in rules:
                raise ViolationError(_INVARIANT, where, f"an acknowledged rule is not in force: {rule}")
        for rule in self._removed:
            if rule in rules:
                raise ViolationError(_INVARIANT, where, f"a removed rule is in force: {rule}")

    def _feed_of(self, node: SimulatedNode) -> _Feed | None:
        loader = probe.metadata_of(node)
        if loader is None:
            return None
        feed = self._feeds.get(node.node_id)
        if feed is None or feed.loader is not loader:
            feed = self._feeds[node.node_id] = _Feed(loader)
            loader.subscribe(feed.on_image)
        return feed


def is_allowed(rules: Iterable[AclBinding], group: str, host: str) -> bool:
    """True if the rules let a client of the address read a group; a group without a rule is open."""
    found = [
        rule
        for rule in rules
        if rule.resource_type is ResourceType.GROUP
        and (
            group.startswith(rule.resource_name)
            if rule.pattern_type is PatternType.PREFIXED
            else rule.resource_name in (group, "*")
        )
    ]
    if not found:
        return True
    own = {
        rule.permission
        for rule in found
        if rule.principal in (PRINCIPAL, "User:*")
        and rule.host in ("*", host)
        and rule.operation in (AclOperation.READ, AclOperation.ALL)
    }
    return AclPermission.DENY not in own and AclPermission.ALLOW in own
