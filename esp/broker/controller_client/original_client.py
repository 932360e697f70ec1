"""The client of a request that this broker passes on: enclosed with its request, so that the controller decides about it (KIP-590)."""

import logging
from typing import Any, NamedTuple, Self

from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.envelope.v0.response import EnvelopeResponse

from esp.broker.connections.unheard import UNHEARD_REMEDY
from esp.broker.request import ClientContext, Request
from esp.model.errors import ApiError, ErrorCode
from esp.ports.network import Address
from esp.protocol.enclosed import encode_address, encode_principal
from esp.protocol.headers import read_response_header
from esp.protocol.messages import LENGTH_BYTES, decode_response, encode_request
from esp.protocol.registry import SERVED, ApiKey

log = logging.getLogger(__name__)


class OriginalClient(NamedTuple):
    """The sender of a request."""

    principal: str
    address: Address
    client_id: str | None
    correlation_id: int
    groups: tuple[str, ...] = ()
    """The principals of its groups."""
    is_by_token: bool = False
    """True if it has logged in by a delegation token."""
    version: int | None = None
    """The version in which its request travels; None: the newest."""

    @classmethod
    def of(cls, request: Request, version: int | None = None) -> Self:
        """The sender of a request, which travels in a version."""
        client = request.client
        return cls(
            client.principal,
            client.address,
            request.client_id,
            request.correlation_id,
            client.groups,
            client.is_by_token,
            version,
        )

    def context(self) -> ClientContext:
        """The client as a controller in the same process sees it: its connection is not the controller's to hold or to end."""
        return ClientContext(
            "",
            self.address,
            self.principal,
            groups=self.groups,
            is_by_token=self.is_by_token,
            is_passed_on=True,
        )

    def enclose(self, api_key: ApiKey, message: Any) -> EnvelopeRequest:
        """The envelope around a request."""
        frame = encode_request(api_key, self._version_of(api_key), self.correlation_id, self.client_id, message)
        return EnvelopeRequest(
            request_data=frame[LENGTH_BYTES:],
            request_principal=encode_principal(self.principal, groups=self.groups, is_by_token=self.is_by_token),
            client_host_address=encode_address(self.address.host),
        )

    def open_answer(self, controller: Address, api_key: ApiKey, answer: EnvelopeResponse) -> Any:
        """Return the answer to the enclosed request.

        Raises:
            ApiError: the controller takes no envelope of this node, or has found a fault in this one.
            DecodeError: the enclosed answer cannot be read.
        """
        if answer.error_code is not ErrorCode.none or answer.response_data is None:
            if answer.error_code is ErrorCode.cluster_authorization_failed:
                log.warning(
                    "the controller at %s does not let this broker ask for its clients: %s", controller, UNHEARD_REMEDY
                )
            raise ApiError(answer.error_code, "The controller did not take the request of this broker's client.")
        data, version = memoryview(answer.response_data), self._version_of(api_key)
        _, position = read_response_header(data, api_key, version)
        return decode_response(api_key, version, data[position:])

    def _version_of(self, api_key: ApiKey) -> int:
        return SERVED[api_key].max_version if self.version is None else self.version
