"""IncrementalAlterConfigs (44), versions 0-1: settings of topics, brokers, groups and client metrics; the active controller decides."""

from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from esp.broker.configs.changes import alter_at_broker
from esp.broker.configs.messages import AlterResponse
from esp.broker.connections.request import Request
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(services: Services, _request: Request, message: IncrementalAlterConfigsRequest) -> AlterResponse:
    """Answer each resource for itself."""
    return await alter_at_broker(services, ApiKey.INCREMENTAL_ALTER_CONFIGS, message)
