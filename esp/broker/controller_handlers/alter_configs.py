"""AlterConfigs (33), versions 0-2, at the controller: the answer waits until the changes are committed."""

from kio.schema.alter_configs.v2.request import AlterConfigsRequest

from esp.broker.configs.changes import alter_at_controller
from esp.broker.configs.messages import AlterResponse
from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices


async def handle(services: ControllerServices, _request: Request, message: AlterConfigsRequest) -> AlterResponse:
    """Answer each resource for itself."""
    return await alter_at_controller(services, message)
