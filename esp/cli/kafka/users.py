"""Looks at users' SCRAM credentials and changes them, by Kafka's APIs alone (KIP-554)."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from esp.cli.kafka.client import AdminConnection, check_code
from esp.cli.kafka.library import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from esp.model.errors import ErrorCode
from esp.model.scram import ScramMechanism

Iterations = Mapping[ScramMechanism, int]
"""The iterations of a user's credentials, by their mechanisms."""

_UNKNOWN: Final = 0


class SaltedPassword(NamedTuple):
    """A password as it is sent: hashed, but enough to log in. It is not for any output."""

    iterations: int
    salt: bytes
    key: bytes


class UsersAdmin(AdminConnection):
    """The users of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def users(self) -> dict[str, Iterations]:
        """Return all users with credentials, sorted by name."""
        found: dict[str, Iterations] = self._ask(lambda client: _describe(client, None))
        return dict(sorted(found.items()))

    def credentials(self, user: str) -> Iterations:
        """Return the credentials of a user; it may have none."""
        found: dict[str, Iterations] = self._ask(lambda client: _describe(client, user))
        return found.get(user, {})

    def put(self, user: str, mechanism: ScramMechanism, password: SaltedPassword) -> None:
        """Give a user a credential, in place of the one that there may be.

        Raises:
            RefusedError: the cluster refused.
        """
        kind = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
        added = kind(
            name=user,
            mechanism=mechanism,
            iterations=password.iterations,
            salt=password.salt,
            salted_password=password.key,
        )
        self._change(lambda client: _alter(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[added])))

    def delete(self, user: str, mechanism: ScramMechanism) -> None:
        """Take a credential away.

        Raises:
            RefusedError: there is none (resource_not_found), or the cluster refused.
        """
        kind = AlterUserScramCredentialsRequest.ScramCredentialDeletion
        deleted = kind(name=user, mechanism=mechanism)
        self._change_once(
            lambda client: _alter(client, AlterUserScramCredentialsRequest(deletions=[deleted], upsertions=[]))
        )


def _describe(client: Any, user: str | None) -> dict[str, Iterations]:
    kind = DescribeUserScramCredentialsRequest.UserName
    users = None if user is None else [kind(name=user)]
    told = client.send(DescribeUserScramCredentialsRequest(users=users), None).to_dict()
    check_code(told["error_code"], told["error_message"])
    found: dict[str, Iterations] = {}
    for each in told["results"]:
        if each["error_code"] == ErrorCode.resource_not_found:
            continue
        check_code(each["error_code"], each["error_message"])
        infos = [info for info in each["credential_infos"] if info["mechanism"] != _UNKNOWN]
        found[each["user"]] = {ScramMechanism(info["mechanism"]): info["iterations"] for info in infos}
    return found


def _alter(client: Any, request: Any) -> None:
    told = client.send(request, None).to_dict()
    for each in told["results"]:
        check_code(each["error_code"], each["error_message"])
