"""ShareFetch (78), versions 1-2: a member of a share group takes records, and may acknowledge others (KIP-932)."""

from kio.schema.share_fetch.v2.request import ShareFetchRequest
from kio.schema.share_fetch.v2.response import ShareFetchResponse

from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.share.handlers import Begun, handle_share_fetch


def handle(services: Services, request: Request, message: ShareFetchRequest) -> Begun[ShareFetchResponse]:
    """Begin at once, or in slices, and answer when there is something to answer."""
    return handle_share_fetch(services.share_leaders(), request, message)
