"""DescribeConfigs (32), versions 1-4: the settings of topics, groups, client metrics, this node and its loggers, read only.

On the listeners of controllers: answered as by brokers, for this node and its loggers where the request names them.
"""

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse

from esp.broker.configs.described_resources import DescribedResources, describe_configs
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services


def handle_at_controller(
    services: ControllerServices, _request: Request, message: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Answer each resource for itself."""
    resources = DescribedResources(services.node_id, services.settings, services.metadata.image)
    return describe_configs(resources, message)


def handle(services: Services, _request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer each resource for itself."""
    resources = DescribedResources(services.node_id, services.settings, services.metadata.image)
    return describe_configs(resources, message)
