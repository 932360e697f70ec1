"""The delegation tokens as the metadata has them."""

from collections.abc import Callable

from esp.authentication.delegation_tokens import TokenCredentials, UsableToken
from esp.controller.image import ClusterImage
from esp.model.delegation_passwords import salts_secret, token_passwords
from esp.model.delegation_terms import DelegationTerms
from esp.model.delegation_token import USER, parts_of


class ImageTokens:
    """The delegation tokens of the newest metadata (:class:`esp.authentication.delegation_tokens.TokenSource`).

    Args:
        image: returns it.
        wall_ms: returns the time by the node's clock on the wall.
        terms: the node's.
    """

    def __init__(self, image: Callable[[], ClusterImage], wall_ms: Callable[[], int], terms: DelegationTerms) -> None:
        self._image = image
        self._wall_ms = wall_ms
        self._terms = terms

    def find(self, token_id: str, /) -> UsableToken | None:
        """See :class:`esp.authentication.delegation_tokens.TokenSource`. An owner that is no user, which Kafka lets be, logs in nowhere."""
        token = self._image().delegation_tokens.get(token_id)
        if token is None or not self._terms.is_enabled:
            return None
        left_ms = token.left_ms(self._wall_ms())
        kind, name = parts_of(token.owner)
        if left_ms <= 0 or kind != USER:
            return None
        return UsableToken(name, token_passwords(self._terms, token_id), left_ms)


def token_credentials(
    image: Callable[[], ClusterImage], wall_ms: Callable[[], int], terms: DelegationTerms, secret: bytes
) -> TokenCredentials:
    """Return the credentials of the tokens in the newest metadata.

    Args:
        image: returns the metadata.
        wall_ms: returns the time by the node's clock on the wall.
        terms: the node's.
        secret: of this process; it makes salts where the nodes have no secret for tokens.
    """
    return TokenCredentials(ImageTokens(image, wall_ms, terms), salts_secret(terms) if terms.is_enabled else secret)
