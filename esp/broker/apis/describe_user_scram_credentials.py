"""DescribeUserScramCredentials (50), version 0: mechanisms and iterations of users' SCRAM credentials, of those that let in here (KIP-554).

No salt and no key leaves a node. A request without names is about all users.
"""

from collections import Counter
from collections.abc import Generator, Mapping

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.static.primitive import i8, i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.model.scram import ScramMechanism
from esp.protocol.progress import Progress

_Answer = Generator[None, None, DescribeUserScramCredentialsResponse]


def handle_at_controller(
    services: ControllerServices, _request: Request, message: DescribeUserScramCredentialsRequest
) -> _Answer:
    """Answer in slices from the committed metadata."""
    return _describe(services.metadata.image, message)


def handle(services: Services, _request: Request, message: DescribeUserScramCredentialsRequest) -> _Answer:
    """Answer in slices from the metadata by which log-ins go here."""
    return _describe(services.in_force(), message)


def _describe(image: ClusterImage, message: DescribeUserScramCredentialsRequest) -> _Answer:
    progress = Progress()
    wanted: Mapping[str, int]
    if message.users:
        wanted = Counter(user.name for user in message.users)
    else:
        wanted = dict.fromkeys((user for user, _ in image.scram_credentials), 1)
    results = []
    for user, count in wanted.items():
        if progress.count_one():
            yield
        results.append(_result(image, user, count))
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="", results=tuple(results)
    )


def _result(image: ClusterImage, user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        problem = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _refusal(user, ErrorCode.duplicate_resource, problem)
    infos = tuple(
        CredentialInfo(mechanism=i8(mechanism), iterations=i32(credential.iterations))
        for mechanism in ScramMechanism
        if (credential := image.scram_credentials.get((user, mechanism))) is not None
    )
    if not infos:
        problem = f"Attempt to describe a user credential that does not exist: {user}"
        return _refusal(user, ErrorCode.resource_not_found, problem)
    return DescribeUserScramCredentialsResult(
        user=user, error_code=ErrorCode.none, error_message="", credential_infos=infos
    )


def _refusal(user: str, code: ErrorCode, problem: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=problem, credential_infos=())
