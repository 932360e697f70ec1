"""Changes of the rules of access. Error codes and texts are those of Kafka 4.3's ``AclControlManager``.

Unlike Kafka a rule with a host that no peer can have is refused: a denial that never matches protects nothing.
"""

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.controller.decision import BATCH_RECORDS_MAX, Decision
from esp.controller.image import ClusterImage
from esp.controller.snapshot_records import acl_record
from esp.model.acl import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_filter import AclFilter
from esp.model.acl_hosts import find_matcher
from esp.model.acl_selector import AclSelector
from esp.model.errors import ApiError, ErrorCode
from esp.ports.random import Random
from esp.schemas.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

_TOO_LARGE: Final = "Unable to perform excessively large batch operation."


class AclCreation(NamedTuple):
    """A rule as a client asks for it, with numbers that may mean nothing."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


def check_acl_creation(creation: AclCreation) -> AclBinding:
    """The rule that a client asks for.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if creation.resource_type not in tuple(ResourceType):
        raise _invalid(f"Invalid resourceType {_name(creation.resource_type)}")
    if creation.pattern_type not in tuple(PatternType):
        raise _invalid(f"Invalid patternType {_name(creation.pattern_type)}")
    if creation.operation not in tuple(AclOperation):
        raise _invalid(f"Invalid operation {_name(creation.operation)}")
    if creation.permission not in tuple(AclPermission):
        raise _invalid(f"Invalid permissionType {_name(creation.permission)}")
    if not creation.resource_name:
        raise _invalid("Invalid empty resource name")
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name not in (CLUSTER_NAME, "*"):
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if ":" not in creation.principal:
        raise _invalid(
            f"Could not parse principal from `{creation.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if find_matcher(creation.host) is None:
        raise _invalid(
            f"No client can have the host '{creation.host}': name *, an address or a network such as 10.0.0.0/8"
        )
    return AclBinding(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        AclPermission(creation.permission),
    )


def decide_create_acls(
    image: ClusterImage, asked: Sequence[AclBinding | ApiError], random: Random
) -> Decision[list[ApiError | None]]:
    """Put rules in force, all at once; a rule that is in force already stays.

    Args:
        image: the cluster now.
        asked: rules, and refusals of creations that are none; the reply has an entry for each, None if the rule is in force.
        random: makes the ids of new rules.
    """
    names = frozenset(binding.resource_name for binding in asked if isinstance(binding, AclBinding))
    in_force = frozenset(binding for binding in image.acls.values() if binding.resource_name in names)
    added = [binding for binding in dict.fromkeys(asked) if isinstance(binding, AclBinding) and binding not in in_force]
    if len(added) > BATCH_RECORDS_MAX:
        return Decision((), [ApiError(ErrorCode.policy_violation, _TOO_LARGE)] * len(asked))
    records: list[AccessControlEntryRecord] = []
    for binding in added:
        acl_id = random.uuid()
        assert acl_id not in image.acls, "no id is given twice"
        records.append(acl_record(acl_id, binding))
    return Decision(tuple(records), [outcome if isinstance(outcome, ApiError) else None for outcome in asked])


def decide_delete_acls(
    image: ClusterImage, filters: Sequence[AclFilter]
) -> Decision[list[tuple[AclBinding, ...] | ApiError]]:
    """Take the rules that filters select out of force, all at once.

    The reply has the rules that each filter selects; a rule may be selected by several. If there are too many of them, nothing is changed:
    a rule counts as often as it is selected, since the answer names it as often.
    """
    selector = AclSelector(image.acls)
    removed: dict[uuid.UUID, None] = {}
    reply: list[tuple[AclBinding, ...] | ApiError] = []
    selected_count = 0
    for acl_filter in filters:
        selected = selector.select(acl_filter)
        selected_count += len(selected)
        if selected_count > BATCH_RECORDS_MAX:
            return Decision((), [ApiError(ErrorCode.policy_violation, _TOO_LARGE) for _ in filters])
        removed |= dict.fromkeys(selected)
        reply.append(tuple(selected.values()))
    return Decision(tuple(RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed), reply)


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, problem)


def _name(number: int) -> str:
    """Kafka's name for a number that stands for no value of its own."""
    return {0: "UNKNOWN", 1: "ANY", 2: "MATCH"}.get(number, "UNKNOWN")
