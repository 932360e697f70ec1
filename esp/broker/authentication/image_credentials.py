"""The credentials of SCRAM as the metadata has them."""

from collections.abc import Callable, Mapping

from esp.authentication.stand_ins import CredentialSurvey, survey
from esp.controller.image import ClusterImage
from esp.model.scram import ScramCredential, ScramMechanism


class ImageCredentials:
    """The credentials of the newest metadata (:class:`esp.authentication.credentials.CredentialSource`).

    Args:
        image: returns it.
    """

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._surveyed = CredentialSurvey()
        self._surveyed_of: Mapping[tuple[str, ScramMechanism], ScramCredential] | None = None
        """The credentials that were surveyed."""

    def find(self, user: str, mechanism: ScramMechanism, /) -> ScramCredential | None:
        """See :class:`esp.authentication.credentials.CredentialSource`."""
        return self._image().scram_credentials.get((user, mechanism))

    def survey(self) -> CredentialSurvey:
        """See :class:`esp.authentication.credentials.CredentialSource`: made when it is first asked for after a change of users."""
        credentials = self._image().scram_credentials
        if credentials is not self._surveyed_of:
            self._surveyed_of = credentials
            self._surveyed = survey(credentials)
        return self._surveyed
