"""Changes of users' SCRAM credentials. Error codes and texts are those of Kafka 4.3's ``ScramControlManager``.

A request may change one credential of a user: two of one user, of whichever mechanisms, are refused both, as in Kafka.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from esp.controller.decision import Decision
from esp.controller.image import ClusterImage
from esp.controller.snapshot_records import scram_credential_record
from esp.model.errors import ApiError, ErrorCode
from esp.model.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from esp.model.scram_keys import credential_of
from esp.schemas.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

_MECHANISMS: Final = frozenset(ScramMechanism)


class CredentialDeletion(NamedTuple):
    """A credential that a client wants gone, with a number of a mechanism that may mean nothing."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class CredentialUpsertion:
    """A credential that a client wants there, new or in place of the user's present one. Its text shows no secret."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


Outcome = tuple[str, ApiError | None]
"""A user and the refusal; None if its credential is changed."""


def decide_alter_scram_credentials(
    image: ClusterImage, deletions: Sequence[CredentialDeletion], upsertions: Sequence[CredentialUpsertion]
) -> Decision[list[Outcome]]:
    """Change the credentials that can be changed, all at once.

    Args:
        image: the cluster now.
        deletions: credentials to remove.
        upsertions: credentials to add or replace.

    Returns:
        A decision whose reply has one outcome for each user that is named, in the order in which they are named first.
    """
    refusals: dict[str, ApiError | None] = {}
    accepted: dict[str, UserScramCredentialRecord | RemoveUserScramCredentialRecord] = {}
    changes: list[CredentialDeletion | CredentialUpsertion] = [*deletions, *upsertions]
    for change in changes:
        refusal = refusals.get(change.user)
        if refusal is not None:
            continue
        if change.user in accepted:
            del accepted[change.user]
            refusals[change.user] = _TWICE
            continue
        try:
            record = _removal(image, change) if isinstance(change, CredentialDeletion) else _upsertion(change)
        except ApiError as error:
            refusals[change.user] = error
        else:
            refusals[change.user] = None
            accepted[change.user] = record
    return Decision(tuple(accepted.values()), list(refusals.items()))


def _removal(image: ClusterImage, deletion: CredentialDeletion) -> RemoveUserScramCredentialRecord:
    mechanism = _mechanism(deletion.user, deletion.mechanism)
    if (deletion.user, mechanism) not in image.scram_credentials:
        raise ApiError(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=deletion.user, mechanism=mechanism)


def _upsertion(upsertion: CredentialUpsertion) -> UserScramCredentialRecord:
    mechanism = _mechanism(upsertion.user, upsertion.mechanism)
    if upsertion.iterations < MIN_ITERATIONS:
        raise ApiError(ErrorCode.unacceptable_credential, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        raise ApiError(ErrorCode.unacceptable_credential, "Too many iterations")
    if not upsertion.salted_password:
        raise ApiError(ErrorCode.unacceptable_credential, "Salted password must not be empty")
    return scram_credential_record(upsertion.user, mechanism, _credential(mechanism, upsertion))


def _mechanism(user: str, number: int) -> ScramMechanism:
    if not user:
        raise ApiError(ErrorCode.unacceptable_credential, "Username must not be empty")
    if number not in _MECHANISMS:
        raise ApiError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    return ScramMechanism(number)


def _credential(mechanism: ScramMechanism, upsertion: CredentialUpsertion) -> ScramCredential:
    return credential_of(mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations)


_TWICE: Final = ApiError(ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")
