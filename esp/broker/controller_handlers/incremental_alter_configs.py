"""IncrementalAlterConfigs (44), versions 0-1, at the controller: the answer waits until the changes are committed."""

from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from esp.broker.configs.changes import alter_at_controller
from esp.broker.configs.messages import AlterResponse
from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices


async def handle(
    services: ControllerServices, _request: Request, message: IncrementalAlterConfigsRequest
) -> AlterResponse:
    """Answer each resource for itself."""
    return await alter_at_controller(services, message)
