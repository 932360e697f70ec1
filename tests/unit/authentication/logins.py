"""Users and their log-ins, for tests of both sides."""

from esp.authentication.credentials import CredentialLookup
from esp.authentication.scram import ScramExchange
from esp.authentication.stand_ins import CredentialSurvey, survey
from esp.model.scram import ScramCredential, ScramMechanism
from esp.model.scram_keys import make_credential

SHA_256, SHA_512 = ScramMechanism
SERVER_PART = "server-part"


class Users:
    """Credentials by user and mechanism."""

    def __init__(self, *users: tuple[str, ScramMechanism, str], salt: bytes = b"salt-of-the-users", iterations=4096):
        self.credentials = {
            (user, mechanism): make_credential(mechanism, password, salt, iterations)
            for user, mechanism, password in users
        }

    def find(self, user: str, mechanism: ScramMechanism, /) -> ScramCredential | None:
        return self.credentials.get((user, mechanism))

    def survey(self) -> CredentialSurvey:
        return survey(self.credentials)


def lookup_of(users: Users, secret: bytes = b"secret of the process") -> CredentialLookup:
    return CredentialLookup(users, secret)


def exchange(users: Users, mechanism: ScramMechanism = SHA_256, server_part: str = SERVER_PART) -> ScramExchange:
    return ScramExchange(mechanism, lookup_of(users), lambda: server_part)
