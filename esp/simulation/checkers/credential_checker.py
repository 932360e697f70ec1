"""Holds the credentials of users at every node against the changes that were acknowledged (INV-CREDENTIAL).

An acknowledged change counts at the node that answered, at once, and at every other node as soon as its metadata reach that node's: a user
logs in by its last password there, and by no other; one that was removed does not log in. It stays so across restarts, loss of power,
snapshots and changes of the leader. So it is by the metadata of nodes, with both sides of a log-in, and by the answers to clients that log
in over the network.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from esp.authentication.credentials import CredentialLookup
from esp.authentication.errors import AuthenticationError
from esp.authentication.exchange import Challenge, Success
from esp.authentication.scram import ScramClient, ScramExchange
from esp.broker.authentication.image_credentials import ImageCredentials
from esp.broker.raft.loader import MetadataLoader
from esp.controller.image import ClusterImage
from esp.model.scram import ScramCredential, ScramMechanism
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.node import SimulatedNode

_INVARIANT: Final = "INV-CREDENTIAL"

TEXTS_KEPT: Final = 2
"""The present password of a user, or the last one of a removed user, and the one before."""

Key = tuple[str, ScramMechanism]


class Password(NamedTuple):
    """A password that was set, and the credential that nodes are to make of it."""

    text: str
    credential: ScramCredential


class _Known(NamedTuple):
    """The state of a user's credential from an offset of the metadata on; without a password it was removed."""

    password: Password | None
    offset: int


class CredentialChecker:
    """Judges the metadata of nodes when a change of users is acknowledged, and in the end."""

    def __init__(self) -> None:
        self.judged = 0
        """Credentials that were held against an acknowledged change, each at one node."""
        self.judged_log_ins = 0
        """Log-ins over the network that were held against an acknowledged change."""
        self._known: dict[Key, _Known] = {}
        self._texts: dict[Key, tuple[str, ...]] = {}
        """The last passwords of each user, as text, the newest at the end."""

    @property
    def passwords(self) -> list[tuple[Key, str]]:
        """The last passwords of the users of which everything is known: those that count, former ones, and those of removed users."""
        return [(key, text) for key in self._known for text in self._texts.get(key, ())]

    def counts_at(self, node: SimulatedNode, key: Key, text: str) -> bool | None:
        """True if a user logs in at a node now by a password, False if it does not, None if that is not known."""
        known, metadata = self._known.get(key), probe.metadata_of(node)
        if known is None or metadata is None or metadata.image.offset < known.offset:
            return None
        return known.password is not None and known.password.text == text

    def on_log_in(
        self, where: str, key: Key, looks: tuple[bool | None, bool | None, bool | None], *, is_in: bool
    ) -> None:
        """A client has tried a password over the network.

        Args:
            where: the name of the node.
            key: the user and the mechanism.
            looks: what :meth:`counts_at` said before the log-in, before the proof was sent, and after the answer. A password that does not
                count any longer when the proof is sent lets no client in; one that was set meanwhile is not that of the challenge.
            is_in: True if the client was let in.

        Raises:
            ViolationError: INV-CREDENTIAL.
        """
        _, at_proof, after = looks
        if None in ((at_proof, after) if is_in else looks):
            return
        self.judged_log_ins += 1
        user, mechanism = key
        if is_in and not (at_proof or after):
            what = "logs in although it was removed, or by a password that is not its own"
            raise ViolationError(_INVARIANT, where, f"user {user} {what} ({mechanism.sasl_name})")
        if not is_in and all(looks):
            raise ViolationError(_INVARIANT, where, f"user {user} is refused with its password ({mechanism.sasl_name})")

    def forget(self, keys: Iterable[Key]) -> None:
        """Ask nothing of these credentials: a change of them may have been made or not."""
        for key in keys:
            self._known.pop(key, None)

    def on_changed(
        self,
        node: SimulatedNode,
        loader: MetadataLoader | None,
        changes: dict[Key, Password | None],
        nodes: Iterable[SimulatedNode],
    ) -> None:
        """A node has acknowledged changes.

        Args:
            node: the node.
            loader: its metadata when it was asked; if another process runs there by now, it has answered nothing.
            changes: the new passwords by user; None for one that is removed.
            nodes: all nodes.

        Raises:
            ViolationError: INV-CREDENTIAL.
        """
        if loader is None or probe.metadata_of(node) is not loader:
            return
        image = loader.image
        self._known.update({key: _Known(password, image.offset) for key, password in changes.items()})
        for key, password in changes.items():
            if password is not None:
                self._texts[key] = (*self._texts.get(key, ())[1 - TEXTS_KEPT :], password.text)
        for key, password in changes.items():
            self._check_log_in(node.name, image, key, password)
        for other in nodes:
            metadata = probe.metadata_of(other)
            if metadata is not None:
                self._check(other.name, metadata.image)

    def check_end(self, image: ClusterImage) -> None:
        """Hold the cluster's users in the end against all that was acknowledged. Raises ViolationError."""
        self._check("the cluster", image)
        for key, known in self._known.items():
            self._check_log_in("the cluster", image, key, known.password)

    def _check(self, where: str, image: ClusterImage) -> None:
        for key, (password, offset) in self._known.items():
            if image.offset < offset:
                continue
            self.judged += 1
            found = image.scram_credentials.get(key)
            expected = password and password.credential
            if found != expected:
                user, mechanism = key
                what = "has no" if found is None else "has a removed" if expected is None else "has another"
                raise ViolationError(
                    _INVARIANT, where, f"user {user} {what} {mechanism.sasl_name} credential at {image.offset}"
                )

    def _check_log_in(self, where: str, image: ClusterImage, key: Key, password: Password | None) -> None:
        user, mechanism = key
        tried = "removed" if password is None else password.text
        if logs_in(image, user, mechanism, tried) != (password is not None):
            what = "logs in although it was removed" if password is None else "does not log in by its password"
            raise ViolationError(_INVARIANT, where, f"user {user} {what} ({mechanism.sasl_name})")
        if password is not None and logs_in(image, user, mechanism, f"not {tried}"):
            raise ViolationError(_INVARIANT, where, f"user {user} logs in by a wrong password ({mechanism.sasl_name})")


def logs_in(image: ClusterImage, user: str, mechanism: ScramMechanism, password: str) -> bool:
    """True if a node whose metadata are these lets the user in."""
    lookup = CredentialLookup(ImageCredentials(lambda: image), b"a secret")
    server = ScramExchange(mechanism, lookup, lambda: "server")
    client = ScramClient(mechanism, user, password, "client")
    try:
        challenge = server.respond(client.first_message())
        assert isinstance(challenge, Challenge), "SCRAM has a challenge"
        outcome = server.respond(client.on_server_first(challenge.data))
        assert isinstance(outcome, Success), "the second message decides"
        client.on_server_final(outcome.data)
    except AuthenticationError:
        return False
    return True
