"""AlterUserScramCredentials (51), version 0: users' SCRAM credentials come and go, all of a request at once (KIP-554).

A client sends a salted password, never the password; what is kept is less than that, and enough to check a log-in. A broker passes the
request on to the active controller, and answers when it has applied the change: it counts for the next log-in here (AUTHZ-2).
"""

from typing import Final

from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.following import until_follows
from esp.broker.forwarding import check_whole, forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.scram_credentials import (
    CredentialDeletion,
    CredentialUpsertion,
    Outcome,
    decide_alter_scram_credentials,
)
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey

ALTERATIONS_MAX: Final = 1_000
"""The largest number of credentials of one request, which change together; to derive their keys takes some ten milliseconds of the loop."""


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change what can be changed, once it is committed; each user is answered for itself."""
    _check(message)
    deletions = [CredentialDeletion(deletion.name, deletion.mechanism) for deletion in message.deletions]
    upsertions = [
        CredentialUpsertion(
            upsertion.name, upsertion.mechanism, upsertion.iterations, upsertion.salt, upsertion.salted_password
        )
        for upsertion in message.upsertions
    ]
    outcomes = await services.controller.commit(
        lambda image: decide_alter_scram_credentials(image, deletions, upsertions), "Alter SCRAM credentials"
    )
    return AlterUserScramCredentialsResponse(throttle_time=NO_THROTTLE, results=tuple(map(_result, outcomes)))


async def handle(
    services: Services, request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Pass the controller's answer on once this node follows."""
    _check(message)
    answer: AlterUserScramCredentialsResponse = await forward(
        services, request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, message
    )
    await until_follows(services)
    return answer


def _check(message: AlterUserScramCredentialsRequest) -> None:
    check_whole((*message.deletions, *message.upsertions), ALTERATIONS_MAX)


def _result(outcome: Outcome) -> AlterUserScramCredentialsResult:
    user, refusal = outcome
    if refusal is None:
        return AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.none, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=refusal.code, error_message=refusal.message)
