"""The principals of clients that show certificates: ``User:`` and a name made of the certificate's."""

import logging
from typing import Final

from esp.broker.request import ClientContext
from esp.model.distinguished_name import subject_of
from esp.model.principal_mapping import PrincipalMapping
from esp.model.shown_names import in_line

log = logging.getLogger(__name__)

USER: Final = "User:"


class CertificatePrincipals:
    """Gives clients their principals.

    Args:
        rules: ``ssl.principal.mapping.rules``.

    Raises:
        ValueError: they are no rules.
    """

    def __init__(self, rules: str) -> None:
        self._mapping = PrincipalMapping(rules)

    def authenticate(self, client: ClientContext, certificate: bytes | None) -> None:
        """Give a client the principal that its certificate proves; without one it stays anonymous.

        Raises:
            ConnectionAbortedError: no rule names a principal for it, so that in Kafka, too, it is refused; or the name is empty, as that
                of a certificate without a subject is: in Kafka all such clients are one user, ``User:``.
        """
        if certificate is None:
            return
        try:
            subject = subject_of(certificate)
        except ValueError as error:
            log.warning("refused a connection of %s: its certificate cannot be read: %s", client.address, error)
            raise ConnectionAbortedError("its certificate cannot be read") from error
        name = self._mapping.name_of(subject)
        if not name:
            log.warning(
                "refused a connection of %s: no rule of ssl.principal.mapping.rules names a principal for %s",
                client.address,
                in_line(subject) or "a certificate without a subject",
            )
            raise ConnectionAbortedError("no rule names its principal")
        client.principal = USER + name
