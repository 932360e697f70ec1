"""DeleteGroups (42), versions 0-2: groups without members go, and their offsets with them."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.types import GroupId

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import all_answered
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.responses import DeleteGroupResult
from esp.model.errors import ApiError


def handle(
    services: Services, request: Request, message: DeleteGroupsRequest
) -> DeleteGroupsResponse | Coroutine[Any, Any, DeleteGroupsResponse]:
    """Delete what can be deleted; each group is answered for itself, once."""
    group_ids = list(dict.fromkeys(message.groups_names))

    def translate(results: list[DeleteGroupResult]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            throttle_time=NO_THROTTLE,
            results=tuple(
                DeletableGroupResult(group_id=group_id, error_code=result.error)
                for group_id, result in zip(group_ids, results, strict=True)
            ),
        )

    return all_answered([_delete(services, group_id) for group_id in group_ids], translate)


def _delete(services: Services, group_id: GroupId) -> asyncio.Future[DeleteGroupResult]:
    try:
        coordinator = services.groups.coordinator_of(group_id, or_empty=True)
        return coordinator.ask(coordinator.core.delete_group, str(group_id))
    except ApiError as error:
        refused: asyncio.Future[DeleteGroupResult] = asyncio.get_running_loop().create_future()
        refused.set_result(DeleteGroupResult(error=error.code))
        return refused
