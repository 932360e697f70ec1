"""The level of the feature ``group.version``: at level 0 no groups of KIP-848 are served."""

from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import GROUP_VERSION


def require_consumer_groups(image: ClusterImage) -> None:
    """Refuse a request about consumer groups where the cluster has none.

    Raises:
        ApiError: UNSUPPORTED_VERSION.
    """
    if not image.features.get(GROUP_VERSION, 0):
        raise ApiError(ErrorCode.unsupported_version)
