"""AlterConfigs (33), versions 0-2: settings of topics, brokers, groups and client metrics; the active controller decides."""

from kio.schema.alter_configs.v2.request import AlterConfigsRequest

from esp.broker.configs.changes import alter_at_broker
from esp.broker.configs.messages import AlterResponse
from esp.broker.connections.request import Request
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(services: Services, _request: Request, message: AlterConfigsRequest) -> AlterResponse:
    """Answer each resource for itself."""
    return await alter_at_broker(services, ApiKey.ALTER_CONFIGS, message)
