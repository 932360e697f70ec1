"""The credentials of SCRAM as the metadata has them."""

from collections.abc import Callable, Mapping

from esp.controller.image import ClusterImage
from esp.model.scram import ScramCredential, ScramMechanism


class ImageCredentials:
    """Those of the newest metadata (:class:`esp.authentication.credentials.CredentialSource`).

    Args:
        image: returns it.
    """

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._specimens: dict[ScramMechanism, ScramCredential] = {}
        self._specimens_of: Mapping[tuple[str, ScramMechanism], ScramCredential] | None = None
        """The credentials that the specimens were chosen from."""

    def find(self, user: str, mechanism: ScramMechanism, /) -> ScramCredential | None:
        """See :class:`esp.authentication.credentials.CredentialSource`."""
        return self._image().scram_credentials.get((user, mechanism))

    def specimen(self, mechanism: ScramMechanism, /) -> ScramCredential | None:
        """See :class:`esp.authentication.credentials.CredentialSource`: the one of the user whose name comes first."""
        credentials = self._image().scram_credentials
        if credentials is not self._specimens_of:
            self._specimens_of = credentials
            self._specimens = {
                mechanism: credentials[user, mechanism] for user, mechanism in sorted(credentials, reverse=True)
            }
        return self._specimens.get(mechanism)
