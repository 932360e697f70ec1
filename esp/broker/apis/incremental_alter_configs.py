"""IncrementalAlterConfigs (44), versions 0-1: settings of topics, brokers, groups and client metrics; the active controller decides.

On the listeners of controllers: the answer waits until the changes are committed.
"""

from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from esp.broker.configs.changes import alter_at_broker, alter_at_controller
from esp.broker.configs.messages import AlterResponse
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: IncrementalAlterConfigsRequest
) -> AlterResponse:
    """Answer each resource for itself."""
    return await alter_at_controller(services, message)


async def handle(services: Services, request: Request, message: IncrementalAlterConfigsRequest) -> AlterResponse:
    """Answer each resource for itself."""
    return await alter_at_broker(services, request, message)
