"""Administrators that make rules of access for groups and topics that no application uses, and remove them; none of them comes again."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from esp.controller.image import ClusterImage
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.access_checker import PRINCIPAL, AccessChecker
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.ledger import GUARDED_TOPICS
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

PAUSE_S: Final = (0.1, 3.0)
KEPT_MAX: Final = 12
"""Rules in force; beyond that some are removed."""
BESIDE_SHARE: Final = 0.4
"""The share of the rules that are about a group that another rule is about."""
GROUP: Final = "guarded-{}"
TOPIC_PREFIX: Final = "guarded-w"
"""The beginning that rules are about at least: no other topic begins so."""
TOPIC_RULES_MAX: Final = 4
TOPIC_PAUSE_S: Final = (0.05, 1.5)
PREFIX_SHARE: Final = 0.4
"""The share of the rules of topics that are about a beginning of their names."""
ALLOW_SHARE: Final = 0.7
CLEAN_LOOKS: Final = 12
"""Looks, a second apart, at metadata without a rule of a topic: a change that was not answered is given up within ten seconds."""
_TIMEOUT_S: Final = 10.0
_LOOK_S: Final = 0.1
_VERSION: Final = 3
_TOGETHER_MAX: Final = 3


class RuleSetter:
    """Makes rules of groups. Asks any broker; each change is tried once, and what it did is not known if no answer comes.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        checker: gets what was acknowledged.
        node_at: the node that listens at an address.
        hosts: addresses that rules name, of clients and of none.
    """

    _kept_max = KEPT_MAX
    _pause_s = PAUSE_S

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        checker: AccessChecker,
        node_at: Callable[[str], SimulatedNode],
        hosts: Sequence[str],
    ) -> None:
        self.is_stopping = False
        self._is_at_work = False
        self.groups = 0
        """The number of names that rules were asked for."""
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._node_at = node_at
        self._hosts = tuple(hosts)
        self._in_force: list[AclBinding] = []
        self._drawn: set[AclBinding] = set()

    async def run(self) -> None:
        """Change rules until told to stop."""
        self._is_at_work = True
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*self._pause_s))
            removes = self._rng.random() < len(self._in_force) / self._kept_max
            try:
                await (self._remove() if removes else self._create())
            except NoAnswerError as error:
                note(Excuse.UNANSWERED_RULES)
                self._history.on_no_answer(self._client.name, str(error))
        self._is_at_work = False

    async def _create(self) -> None:
        rules = [self._draw() for _ in range(self._rng.randint(1, _TOGETHER_MAX))]
        creations = [
            {
                "resource_type": rule.resource_type,
                "resource_name": rule.resource_name,
                "resource_pattern_type": rule.pattern_type,
                "principal": rule.principal,
                "host": rule.host,
                "operation": rule.operation,
                "permission_type": rule.permission,
            }
            for rule in rules
        ]
        node, answer = await self._call(ApiKey.CREATE_ACLS, {"creations": creations}, rules)
        if self._are_done(rules, [result.error_code for result in answer.results], "rules made"):
            self._in_force += rules
            self._checker.on_created(node, rules)

    async def _remove(self) -> None:
        count = min(len(self._in_force), self._rng.randint(1, _TOGETHER_MAX))
        rules = self._rng.sample(self._in_force, count)
        self._in_force = [rule for rule in self._in_force if rule not in rules]
        node, answer = await self._call(ApiKey.DELETE_ACLS, {"filters": list(map(_filter_of, rules))}, rules)
        if self._are_done(rules, [result.error_code for result in answer.filter_results], "rules removed"):
            self._checker.on_removed(node, rules)

    async def _call(
        self, key: ApiKey, content: dict[str, Any], rules: Sequence[AclBinding]
    ) -> tuple[SimulatedNode, Any]:
        self._checker.forget(rules)  # until the answer says what became of them
        connection = await self._client.any_broker()
        node = self._node_at(connection.address.host)
        return node, await connection.call(key, _VERSION, build(key, _VERSION, content), _TIMEOUT_S)

    def _are_done(self, rules: Sequence[AclBinding], codes: Sequence[ErrorCode], what: str) -> bool:
        failed = [code for code in codes if code is not ErrorCode.none]
        if failed:
            self._history.on_refusal(self._client.name, failed[0].name)
            note(Excuse.UNANSWERED_RULES)
            return False
        self._history.on_done(self._client.name, what, ", ".join(rule.resource_name for rule in rules))
        return True

    def _draw(self) -> AclBinding:
        """A rule that was never asked for: what became of it is known from the answer to this request alone."""
        while (rule := self._draw_any()) in self._drawn:
            pass
        self._drawn.add(rule)
        return rule

    def _draw_any(self) -> AclBinding:
        """A rule that denies, or one that lets some in and so closes the group for all others; often beside another of the same group."""
        if self._in_force and self._rng.random() < BESIDE_SHARE:
            name = self._rng.choice(self._in_force).resource_name
        else:
            self.groups += 1
            name = GROUP.format(self.groups)
        return AclBinding(
            ResourceType.GROUP,
            name,
            self._rng.choice(list(PatternType)),
            self._rng.choice((PRINCIPAL, "User:*", "User:other")),
            self._rng.choice(("*", *self._hosts)),
            self._rng.choice((AclOperation.READ, AclOperation.ALL, AclOperation.WRITE)),
            self._rng.choice(list(AclPermission)),
        )


def _filter_of(rule: AclBinding) -> dict[str, Any]:
    """The filter that finds this rule and no other."""
    return {
        "resource_type_filter": rule.resource_type,
        "resource_name_filter": rule.resource_name,
        "pattern_type_filter": rule.pattern_type,
        "principal_filter": rule.principal,
        "host_filter": rule.host,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }


class TopicRuleSetter(RuleSetter):
    """Makes rules of topics: of single ones, and of the beginnings that their names share; few at a time, so that they open and close."""

    _kept_max = TOPIC_RULES_MAX
    _pause_s = TOPIC_PAUSE_S

    async def remove_all(self, image: Callable[[], ClusterImage]) -> None:
        """Remove all rules of these topics, and return when none has been there for a while: what was asked for before may still come."""
        self.is_stopping = True
        while self._is_at_work:  # noqa: ASYNC110 - the answer to its last change counts for the checker
            await asyncio.sleep(_LOOK_S)
        clean_looks = 0
        while clean_looks < CLEAN_LOOKS:
            rules = [
                rule
                for rule in image().acls.values()
                if rule.resource_type is ResourceType.TOPIC and rule.resource_name.startswith(TOPIC_PREFIX)
            ]
            clean_looks = 0 if rules else clean_looks + 1
            try:
                if rules:
                    await self._call(ApiKey.DELETE_ACLS, {"filters": list(map(_filter_of, rules))}, rules)
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
            await asyncio.sleep(1)

    def _draw_any(self) -> AclBinding:
        """A rule for a topic, more often one that lets in."""
        name, pattern = self._rng.choice(GUARDED_TOPICS), PatternType.LITERAL
        if self._rng.random() < PREFIX_SHARE:
            pattern = PatternType.PREFIXED
            name = name[: self._rng.randint(len(TOPIC_PREFIX), len(name))]
        return AclBinding(
            ResourceType.TOPIC,
            name,
            pattern,
            self._rng.choice((PRINCIPAL, PRINCIPAL, "User:*", "User:other")),
            self._rng.choice(("*", *self._hosts)),
            self._rng.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.ALL, AclOperation.DESCRIBE)),
            AclPermission.ALLOW if self._rng.random() < ALLOW_SHARE else AclPermission.DENY,
        )
