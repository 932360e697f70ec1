"""Decisions about permissions against those of Kafka's own authorizer."""

import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from esp.authorization.authorizer import Authorizer
from esp.model.acl import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import skip_or_fail

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).with_name("JavaAuthorizer.java")
USERS = ("alice", "bob", "root", "CN=carol,O=Org")
PRINCIPALS = ("User:alice", "User:alice", "User:bob", "User:*", "User:root", "User:CN=carol,O=Org", "Group:alice")
ADDRESSES = ("10.1.2.3", "10.1.2.4", "::1", "2001:db8::1")
HOSTS = ("*", "*", "*", *ADDRESSES[:2], "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:1")
"""As Java writes addresses: Kafka compares texts."""
NAMES = ("a", "ab", "abc", "b", "ba", "*", "größe")
OPERATIONS = [operation for operation in AclOperation if operation is not AclOperation.ALL]
IMPLYING = [
    (AclOperation.DESCRIBE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.READ, AclOperation.WRITE),
    (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
]
"""An operation and what implies it."""


class Question(NamedTuple):
    """A permission that a client needs; without a name, on any resource of the type."""

    resource_type: ResourceType
    name: str | None
    user: str
    address: str
    operation: AclOperation

    @property
    def line(self) -> str:
        if self.name is None:
            return "\t".join(("any", str(int(self.resource_type)), self.user, self.address, str(int(self.operation))))
        asked = ("ask", str(int(self.resource_type)), self.name, self.user, self.address, str(int(self.operation)))
        return "\t".join(asked)

    def answer(self, authorizer: Authorizer) -> bool:
        client = (f"User:{self.user}", self.address, self.operation, self.resource_type)
        if self.name is None:
            return authorizer.is_allowed_for_any(*client)
        return authorizer.is_allowed(*client, self.name)


def ask_java(tools: KafkaTools, lines: list[str]) -> list[bool]:
    command = ["java", "-cp", f"{tools.library_dir}/*", str(PROGRAM)]
    asked = "\n".join(lines).encode() + b"\n"
    done = subprocess.run(command, input=asked, capture_output=True, timeout=120)
    if done.returncode != 0 and b"jdk.compiler" in done.stderr:
        skip_or_fail("a JDK is needed to compile JavaAuthorizer.java")
    assert done.returncode == 0, done.stderr.decode()
    return [line == b"1" for line in done.stdout.split()]


class Subject:
    """The few resources and operations that the rules and questions of one round are about, so that many rules concern one question."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._types = rng.sample(list(ResourceType), rng.choice([1, 2]))
        self._operations = rng.sample(OPERATIONS, 2)
        if rng.random() < 0.5:
            self._operations += rng.choice(IMPLYING)

    def rule(self) -> AclBinding:
        rng, resource_type = self._rng, self._rng.choice(self._types)
        return AclBinding(
            resource_type,
            CLUSTER_NAME if resource_type is ResourceType.CLUSTER else rng.choice(NAMES),
            rng.choice(list(PatternType)),
            rng.choice(PRINCIPALS),
            rng.choice(HOSTS),
            rng.choice([AclOperation.ALL, *self._operations, *self._operations]),
            rng.choice(list(AclPermission)),
        )

    def question(self) -> Question:
        rng, resource_type = self._rng, self._rng.choice(self._types)
        name = rng.choice([None, None, *NAMES, "abcd", "x", "größer"])
        if resource_type is ResourceType.CLUSTER and name is not None:
            name = CLUSTER_NAME
        return Question(resource_type, name, rng.choice(USERS), rng.choice(ADDRESSES), rng.choice(self._operations))


def test_permissions_are_those_that_kafkas_authorizer_gives(kafka_tools: KafkaTools) -> None:
    rng = Random(29)
    lines: list[str] = []
    asked: list[tuple[list[AclBinding], bool, Question, bool]] = []
    for _ in range(1_500):
        is_open = rng.random() < 0.3
        authorizer = Authorizer(["User:root"], allow_if_no_acl_found=is_open)
        subject = Subject(rng)
        rules = list(dict.fromkeys(subject.rule() for _ in range(rng.choice([0, 1, 2, 4, 12]))))
        authorizer.change([], rules)
        lines.append(f"new\t{str(is_open).lower()}")
        for rule in rules:
            words = (part if isinstance(part, str) else str(int(part)) for part in rule)
            lines.append("\t".join(("acl", *words)))
        for _ in range(20):
            question = subject.question()
            lines.append(question.line)
            asked.append((rules, is_open, question, question.answer(authorizer)))
    theirs = ask_java(kafka_tools, lines)
    different = [(*case, their) for case, their in zip(asked, theirs, strict=True) if case[3] is not their]
    assert not different, f"{len(different)}: {different[:3]}"
    assert 3_000 < sum(theirs) < 27_000
    assert 500 < sum(their for case, their in zip(asked, theirs, strict=True) if case[2].name is None) < 7_000
