"""The level of the feature ``transaction.version``: at level 0 no transactions are served (decision 38)."""

from esp.broker.answer_fields import NO_TRANSACTIONS, NO_TRANSACTIONS_MESSAGE
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError
from esp.model.features import TRANSACTION_VERSION


def serves_transactions(image: ClusterImage) -> bool:
    """True from level 1 on."""
    return bool(image.features.get(TRANSACTION_VERSION, 0))


def require_transactions(image: ClusterImage) -> None:
    """Refuse a request with a transactional id where no transactions are served.

    Raises:
        ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, with which every client ends.
    """
    if not serves_transactions(image):
        raise ApiError(NO_TRANSACTIONS, NO_TRANSACTIONS_MESSAGE)
