"""Envelope (58), version 0, of controllers: a broker passes on the request of a client, whose permissions are those that count (KIP-590).

Codes are Kafka's: INVALID_REQUEST for a request that no broker passes on and for an address that is none, UNSUPPORTED_VERSION for a request
that cannot be read, PRINCIPAL_DESERIALIZATION_FAILURE.
"""

from typing import Final

from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.envelope.v0.response import EnvelopeResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.request import ClientContext, Request
from esp.model.errors import ApiError, ErrorCode
from esp.ports.network import Address
from esp.protocol.enclosed import decode_address, decode_principal
from esp.protocol.errors import DecodeError
from esp.protocol.headers import read_request_header
from esp.protocol.registry import ApiKey

FORWARDED: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    )
)
"""The APIs that brokers pass on."""


async def handle_at_controller(
    services: ControllerServices, request: Request, message: EnvelopeRequest
) -> EnvelopeResponse:
    """Answer the enclosed request as its client may be answered.

    Raises:
        ApiError: the envelope has a fault.
    """
    host = decode_address(message.client_host_address)
    principal = decode_principal(message.request_principal)
    client = ClientContext(
        request.client.listener,
        Address(host, 0),
        principal.name,
        groups=principal.groups,
        is_by_token=principal.is_by_token,
        is_passed_on=True,
    )
    frame = memoryview(message.request_data)
    try:
        header = read_request_header(frame)
        if header.api_key not in FORWARDED:
            raise ApiError(ErrorCode.invalid_request, f"No broker passes on requests of API {header.api_key}.")
        answer = await services.answer_enclosed(header, frame[header.body_position :], client)
    except DecodeError as error:
        raise ApiError(ErrorCode.unsupported_version, f"The enclosed request cannot be read: {error}") from error
    return EnvelopeResponse(response_data=answer, error_code=ErrorCode.none)
