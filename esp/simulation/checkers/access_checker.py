"""Holds answers against the rules of access that were in force at the node that gave them (INV-AUTHZ).

The rules are those of the images that the node published while the request was under way, each taken as a whole, and judged here by going
through all of them. Rules of one resource type are made by one client, each once: an acknowledged rule is in force at the node that
answered, and in the end; one that was acknowledged to be removed is not.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import NamedTuple, TypeAlias

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
    """A request for which a client may need a permission, as it begins."""

    node: SimulatedNode
    name: str
    """The resource's."""
    feed: "_Feed | None"
    """None if the node has no metadata yet."""
    begun: int
    """The place in the feed of the rules that were in force."""
    resource_type: ResourceType = ResourceType.GROUP
    operation: AclOperation = AclOperation.READ


Moment: TypeAlias = "Mapping[int, tuple[_Feed, int]]"
"""The rules in force at each node at one time, by the nodes' numbers: feeds, and the last place in each."""


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

    def ask(
        self,
        node: SimulatedNode,
        name: str,
        resource_type: ResourceType = ResourceType.GROUP,
        operation: AclOperation = AclOperation.READ,
    ) -> Question:
        """A request leaves for a node."""
        feed = self._feed_of(node)
        begun = len(feed.published) - 1 if feed is not None else 0
        return Question(node, name, feed, begun, resource_type, operation)

    def moment(self) -> Moment:
        """The rules that are in force now, at the nodes that were asked before."""
        return {number: (feed, len(feed.published) - 1) for number, feed in self._feeds.items()}

    def on_answer(self, question: Question, host: str, *, is_denied: bool, since: Iterable[Moment] = ()) -> None:
        """The answer has come.

        Args:
            question: the request.
            host: the client's address.
            is_denied: whether the client was told that it may not.
            since: moments after the request left, before which it cannot have been decided: it tells of something that was done later.

        Raises:
            ViolationError: INV-AUTHZ: no rules of that time give it.
        """
        node, name, feed, begun = question[:4]
        if feed is None or self._feed_of(node) is not feed:
            self.unjudged += 1
            return
        self.judged += 1
        for moment in since:
            of_node = moment.get(node.node_id)
            if of_node is not None and of_node[0] is feed:
                begun = max(begun, of_node[1])
        kind, operation = question.resource_type, question.operation
        for rules in feed.published[max(0, begun) :]:
            if is_allowed(rules, name, host, kind, operation) != is_denied:
                return
        verdict = "denied" if is_denied else "allowed"
        what = f"{operation.name} on {kind.name} {name}"
        raise ViolationError(_INVARIANT, node.name, f"{verdict} {what}, which no rules of that time do")

    def on_created(self, node: SimulatedNode, rules: Iterable[AclBinding]) -> None:
        """A node has acknowledged new rules. Raises ViolationError."""
        changed = list(rules)
        self._in_force.update(dict.fromkeys(changed))
        self._check_node(node, changed)

    def on_removed(self, node: SimulatedNode, rules: Iterable[AclBinding]) -> None:
        """A node has acknowledged that rules are gone. Raises ViolationError."""
        changed = list(rules)
        for rule in changed:
            self._in_force.pop(rule, None)
            self._removed[rule] = None
        self._check_node(node, changed)

    def forget(self, rules: Iterable[AclBinding]) -> None:
        """Ask nothing of these rules: a change of them may have been made or not."""
        for rule in rules:
            self._in_force.pop(rule, None)
            self._removed.pop(rule, None)

    def check_end(self, image: ClusterImage) -> None:
        """Hold the cluster's rules in the end against all that was acknowledged. Raises ViolationError."""
        self._check("the cluster", image, frozenset(ResourceType))

    def _check_node(self, node: SimulatedNode, changed: Iterable[AclBinding]) -> None:
        """A node that answers a change has all that were answered before, of the one client that changes rules of that type."""
        feed = self._feeds.get(node.node_id)
        if feed is not None and probe.metadata_of(node) is feed.loader:
            self._check(node.name, feed.loader.image, frozenset(rule.resource_type for rule in changed))

    def _check(self, where: str, image: ClusterImage, types: Container[ResourceType]) -> None:
        rules = frozenset(image.acls.values())
        for rule in self._in_force:
            if rule.resource_type in types and rule not in rules:
                raise ViolationError(_INVARIANT, where, f"an acknowledged rule is not in force: {rule}")
        for rule in self._removed:
            if rule.resource_type in types and rule in rules:
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


def is_allowed(
    rules: Iterable[AclBinding],
    name: str,
    host: str,
    resource_type: ResourceType = ResourceType.GROUP,
    operation: AclOperation = AclOperation.READ,
) -> bool:
    """True if the rules let a client of the address do an operation on a resource; a resource without a rule is open."""
    found = [
        rule
        for rule in rules
        if rule.resource_type is resource_type
        and (
            name.startswith(rule.resource_name)
            if rule.pattern_type is PatternType.PREFIXED
            else rule.resource_name in (name, "*")
        )
    ]
    if not found:
        return True
    own = {
        rule.permission
        for rule in found
        if rule.principal in (PRINCIPAL, "User:*")
        and is_at(host, rule.host)
        and rule.operation in (operation, AclOperation.ALL)
    }
    return AclPermission.DENY not in own and AclPermission.ALLOW in own


def is_at(host: str, hosts: str) -> bool:
    """True if an address is the one that a rule names, or in the network that it names."""
    return hosts in ("*", host) or ("/" in hosts and ip_address(host) in ip_network(hosts))
