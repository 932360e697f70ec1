"""Requests that are denied, and wrong in another way too: the answer has the code of the denial alone, the same for what does not exist.

Each field of each API's request is made another, one at a time.
"""

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from typing import Any, Final
from uuid import UUID

import pytest

from esp.protocol.entity_fields import entity_fields
from esp.protocol.registry import SERVED, ApiKey
from esp.simulation.workload.survey_requests import build
from tests.unit.broker.authorization.test_denials import CASES, DENIALS, Case, codes
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, guarded, until_coordinated

WRONG: Final = {
    "bool": (False, True),
    "int8": (-9, 99),
    "int16": (-9, 999),
    "int32": (-9, 2**31 - 1),
    "int64": (-9, 2**63 - 1),
    "uint16": (0, 65_535),
    "string": ("", "no such one", "..", "User", "x" * 250),
    "uuid": (None, UUID(int=99)),
    "bytes": (b"", b"\xff"),
    "records": (),
    "timedelta_i32": (),
    "timedelta_i64": (),
    "float64": (-1.0, float("nan")),
}
"""Values of each type that some field does not allow. Times are left out: the broker may wait for so long."""


def variants(message: Any) -> Iterator[tuple[str, Any]]:
    """The message with one field made another, and the name of that."""
    for field in entity_fields(type(message)):
        value = getattr(message, field.name)
        for place, other in _others(field, value):
            yield f"{field.name}{place}", replace(message, **{field.name: other})


def _others(field: Any, value: Any) -> Iterator[tuple[str, Any]]:
    wrong = WRONG.get(field.kafka_type, ())
    if field.is_array:
        if value:
            yield "*2", value + value
            if field.entity is not None:
                for name, first in variants(value[0]):
                    yield f".{name}", (first, *value[1:])
        elif field.entity is not None:
            empty = field.entity(**{each.name: each.implied_default() for each in entity_fields(field.entity)})
            yield "+1", (empty,)
        else:
            for each in wrong:
                yield f"+{each!r:.20}", (each,)
    elif field.entity is not None:
        if value is not None:
            for name, other in variants(value):
                yield f".{name}", other
    else:
        for each in wrong:
            if each != value:
                yield f"={each!r:.20}", each
        if field.is_nullable and value is not None:
            yield "=None", None


MEANINGLESS: Final = {
    (ApiKey.METADATA, "topics.name=None"): "an id, which is no topic's",
    (ApiKey.FIND_COORDINATOR, "key_type=-9"): "no type",
    (ApiKey.FIND_COORDINATOR, "key_type=99"): "no type",
    (ApiKey.DELETE_TOPICS, "topics.name=None"): "neither a name nor an id",
    (ApiKey.DESCRIBE_CONFIGS, "resources.resource_type=-9"): "no type",
    (ApiKey.DESCRIBE_CONFIGS, "resources.resource_type=99"): "no type",
    (ApiKey.ALTER_CONFIGS, "resources.resource_type=-9"): "no type",
    (ApiKey.ALTER_CONFIGS, "resources.resource_type=99"): "no type",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.resource_type=-9"): "no type",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources.resource_type=99"): "no type",
}
"""Requests with an element that names nothing for which there could be a permission. It gets another error, the same for everyone."""

EXISTING: Final = {"t": "u", "g": "h", "x": "y"}
"""Names of a topic, a group and a transactional id, and as many names that nothing has."""


def renamed(message: Any) -> Any:
    """The message about what does not exist."""
    if isinstance(message, str):
        return EXISTING.get(message, message)
    if isinstance(message, tuple):
        return tuple(map(renamed, message))
    if not is_dataclass(message):
        return message
    return replace(
        message, **{field.name: renamed(getattr(message, field.name)) for field in entity_fields(type(message))}
    )


def wrong_requests(case: Case) -> Iterator[tuple[int, str, Any]]:
    """Wrong requests in the oldest and the newest version of a case: the version, the fault, and the message."""
    api = SERVED[case.key]
    for version in {max(api.min_version, case.min_version), min(api.max_version, case.max_version)}:
        for fault, message in variants(build(case.key, version, case.content)):
            if (case.key, version, fault) != (ApiKey.METADATA, 1, "topics.name=None"):  # it cannot be written down
                yield version, fault, message


async def everything_exists(node: Any) -> Any:
    """Make a topic, a group and a transactional id; return a client that may do everything."""
    root = await client_of(node, ROOT)
    await create_topic(root)
    await until_coordinated(root)
    partition = {"partition_index": 0, "committed_offset": 0}
    topics = [{"name": "t", "partitions": [partition]}]
    committed = await ask(root, ApiKey.OFFSET_COMMIT, 9, group_id="g", generation_id_or_member_epoch=-1, topics=topics)
    begun = await ask(
        root,
        ApiKey.INIT_PRODUCER_ID,
        5,
        transactional_id="x",
        transaction_timeout=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    assert codes([committed, begun]) == {0}
    return root


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key.name}-{case.min_version}")
@guarded()
async def test_a_denial_says_nothing_else(node: Any, case: Case) -> None:
    await everything_exists(node)
    client = await client_of(node, "User:nobody")
    for version, fault, message in wrong_requests(case):
        answer = await client.call(case.key, version, message)
        if (case.key, fault) not in MEANINGLESS:
            found = codes(answer)
            assert found & DENIALS, (version, fault, answer)
            assert found <= {0, *DENIALS}, (version, fault, answer)
        without = await client.call(case.key, version, renamed(message))
        assert without == renamed(answer), (version, fault)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key.name}-{case.min_version}")
@guarded()
async def test_a_permission_that_is_missing_is_missed_in_a_wrong_request_too(node: Any, case: Case) -> None:
    root = await everything_exists(node)
    for number in range(len(case.needs)):
        user = f"User:{number}"
        for operation, resource, _ in case.needs[:number] + case.needs[number + 1 :]:
            await allow(root, user, operation, *resource)
        client = await client_of(node, user)
        for version, fault, message in wrong_requests(case):
            if (case.key, fault) not in MEANINGLESS:
                answer = await client.call(case.key, version, message)
                assert codes(answer) & DENIALS, (number, version, fault, answer)
