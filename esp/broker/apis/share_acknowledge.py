"""ShareAcknowledge (79), versions 1-2: a member of a share group says what has become of records (KIP-932)."""

from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest
from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share.handlers import Begun, handle_share_acknowledge


def handle(services: Services, request: Request, message: ShareAcknowledgeRequest) -> Begun[ShareAcknowledgeResponse]:
    """Begin at once, or in slices, and answer when there is something to answer."""
    return handle_share_acknowledge(services.share_leaders(), request, message)
