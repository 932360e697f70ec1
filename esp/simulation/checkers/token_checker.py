"""Holds the delegation tokens at every node against the answers to their owners (INV-CREDENTIAL).

An acknowledged change counts at the node that answered, at once, and at every other node as soon as its metadata reach that node's: a token
lets its bearer in there, as its owner, until its time is over by the clock on the wall of the node; one that was removed lets no client in.
Its password is the one that its owner was given, whichever of the two secrets the node makes passwords by. It stays so across restarts,
loss of power, snapshots and changes of the leader. A token that has expired may be gone, and before that it may not. The log-in is the
product's own, both sides of it.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from esp.authentication.credentials import CredentialLookup, NoCredentials
from esp.authentication.errors import AuthenticationError
from esp.authentication.exchange import Challenge, NewTokenWait, SlowCheck, Success
from esp.authentication.scram import ScramClient, ScramExchange
from esp.broker.authentication.image_tokens import token_credentials
from esp.broker.raft.loader import MetadataLoader
from esp.controller.image import ClusterImage
from esp.model.delegation_terms import DelegationTerms
from esp.model.delegation_token import DelegationToken, parts_of
from esp.model.scram import ScramMechanism
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.node import SimulatedNode

_INVARIANT: Final = "INV-CREDENTIAL"
_WRONG: Final = "wrong"


class IssuedToken(NamedTuple):
    """A token with its password, as its owner has them."""

    token: DelegationToken
    password: str


class _Known(NamedTuple):
    """The state of a token from an offset of the metadata on."""

    issued: IssuedToken
    is_removed: bool
    offset: int


class TokenChecker:
    """Judges the metadata of nodes when a change of a token is acknowledged, log-ins, and the metadata in the end.

    Args:
        latest_ms: returns the latest time that the clock on the wall of a node may have shown so far.
    """

    def __init__(self, latest_ms: Callable[[], float]) -> None:
        self.judged = 0
        """Tokens that were held against what was acknowledged, each at one node, and log-ins."""
        self._latest_ms = latest_ms
        self._known: dict[str, _Known] = {}

    def forget(self, token_id: str) -> None:
        """Ask nothing of a token: a change of it may have been made or not."""
        self._known.pop(token_id, None)

    def on_changed(
        self,
        node: SimulatedNode,
        loader: MetadataLoader | None,
        issued: IssuedToken,
        nodes: Iterable[SimulatedNode],
        *,
        is_removed: bool = False,
    ) -> None:
        """A node has acknowledged a change of a token, or its creation.

        Args:
            node: the node.
            loader: its metadata when it was asked; if another process runs there by now, it has answered nothing.
            issued: the token as it is from now on, or as it was before it was removed.
            nodes: all nodes.
            is_removed: True if it was removed.

        Raises:
            ViolationError: INV-CREDENTIAL.
        """
        token = issued.token
        if token.expiry_ms > token.max_ms:
            raise ViolationError(_INVARIANT, node.name, f"{token} ends later than it may")
        if loader is None or probe.metadata_of(node) is not loader:
            self.forget(token.token_id)
            note(Excuse.UNANSWERED_TOKENS)
            return
        known = self._known[token.token_id] = _Known(issued, is_removed, loader.image.offset)
        self._check_log_in(node.name, known, loader.image, node.clock.wall_ms(), node.settings.delegation_terms)
        for each in nodes:
            metadata = probe.metadata_of(each)
            if metadata is not None:
                self._check(each.name, metadata.image)
                if metadata.image.offset >= known.offset:
                    self._check_log_in(
                        each.name, known, metadata.image, each.clock.wall_ms(), each.settings.delegation_terms
                    )

    def counts_at(self, node: SimulatedNode, token_id: str) -> bool | None:
        """True if a token lets its bearer in at a node now, False if it does not, None if that is not known."""
        return self._counts(probe.metadata_of(node), token_id, node.clock.wall_ms())

    def _counts(self, metadata: MetadataLoader | None, token_id: str, wall_ms: int) -> bool | None:
        known = self._known.get(token_id)
        if known is None or metadata is None or metadata.image.offset < known.offset:
            return None
        return self._expected(known, metadata.image, wall_ms)

    def on_log_in(
        self, node: SimulatedNode, token_id: str, expected: tuple[bool | None, bool | None], *, is_in: bool
    ) -> None:
        """A client has tried a token at a node.

        Args:
            node: the node.
            token_id: of the token.
            expected: what :meth:`counts_at` said before and after that.
            is_in: whether it was let in.

        Raises:
            ViolationError: INV-CREDENTIAL.
        """
        if None in expected:
            return
        self.judged += 1
        if expected == (not is_in, not is_in):
            what = (
                "lets its bearer in although it was removed or its time is over"
                if is_in
                else "does not let its bearer in"
            )
            raise ViolationError(_INVARIANT, node.name, f"token {token_id} {what}")

    def on_described(
        self, node: SimulatedNode, living: Iterable[IssuedToken], described: Iterable[IssuedToken]
    ) -> None:
        """A user has asked a node for its tokens.

        Args:
            node: the node.
            living: the user's tokens that the node let in when it was asked.
            described: the tokens of the answer.

        Raises:
            ViolationError: INV-CREDENTIAL.
        """
        found = {each.token.token_id: each for each in described}
        metadata = probe.metadata_of(node)
        wall_ms = node.clock.wall_ms()  # read once: time goes on between two readings, and that of a token may be over
        for issued in living:
            token, seen = issued.token, found.get(issued.token.token_id)
            if metadata is None or not self._counts(metadata, token.token_id, wall_ms):
                continue
            self.judged += 1
            if seen is None or seen.token != token:
                raise ViolationError(_INVARIANT, node.name, f"{token} is described to its owner as {seen}")
            if not logs_in(metadata.image, wall_ms, node.settings.delegation_terms, seen):
                raise ViolationError(_INVARIANT, node.name, f"{token} is described with a password that is not its own")

    def check_end(self, image: ClusterImage, terms: DelegationTerms) -> None:
        """Hold the cluster's tokens in the end against all that was acknowledged. Raises ViolationError."""
        self._check("the cluster", image)
        for known in self._known.values():
            self._check_log_in("the cluster", known, image, 0, terms)

    def _check(self, where: str, image: ClusterImage) -> None:
        for token_id, (issued, is_removed, offset) in self._known.items():
            if image.offset < offset:
                continue
            self.judged += 1
            found = image.delegation_tokens.get(token_id)
            may_be_gone = is_removed or min(issued.token.expiry_ms, issued.token.max_ms) < self._latest_ms()
            if found is None and not may_be_gone:
                raise ViolationError(_INVARIANT, where, f"token {token_id} is gone at {image.offset} before its time")
            if found is None and not is_removed and self._latest_ms() == math.inf:
                note(Excuse.EXPIRED_BY_JUMPS)
            if found is not None and (is_removed or found != issued.token):
                what = "was removed" if is_removed else "has other terms than its owner knows"
                raise ViolationError(_INVARIANT, where, f"token {token_id} {what}: {found} at {image.offset}")

    def _check_log_in(
        self, where: str, known: _Known, image: ClusterImage, wall_ms: int, terms: DelegationTerms
    ) -> None:
        expected, token = self._expected(known, image, wall_ms), known.issued.token
        if logs_in(image, wall_ms, terms, known.issued) != expected:
            what = (
                "does not let its bearer in"
                if expected
                else "lets its bearer in although it was removed or its time is over"
            )
            raise ViolationError(_INVARIANT, where, f"token {token.token_id} {what}: {token} at {wall_ms}")
        if expected and logs_in(image, wall_ms, terms, known.issued._replace(password=_WRONG)):
            raise ViolationError(_INVARIANT, where, f"token {token.token_id} lets a client in by a wrong password")

    @staticmethod
    def _expected(known: _Known, image: ClusterImage, wall_ms: int) -> bool:
        token = known.issued.token
        is_over = wall_ms >= min(token.expiry_ms, token.max_ms)
        return not (known.is_removed or is_over) and token.token_id in image.delegation_tokens


def logs_in(image: ClusterImage, wall_ms: int, terms: DelegationTerms, issued: IssuedToken) -> bool:
    """True if a node lets the bearer of a token in, as its owner.

    Args:
        image: the node's metadata.
        wall_ms: the time by its clock on the wall.
        terms: its terms of tokens.
        issued: the token, with the password that is tried.
    """
    mechanism = ScramMechanism.SCRAM_SHA_256
    tokens = token_credentials(lambda: image, lambda: wall_ms, terms, b"a secret")
    server = ScramExchange(mechanism, CredentialLookup(NoCredentials(), b"a secret", tokens), lambda: "server")
    client = ScramClient(mechanism, issued.token.token_id, issued.password, "client", is_token=True)
    try:
        challenge = server.respond(client.first_message())
        assert isinstance(challenge, Challenge), "SCRAM has a challenge"
        outcome = server.respond(client.on_server_first(challenge.data))
        while not isinstance(outcome, Success):
            assert isinstance(outcome, SlowCheck | NewTokenWait), "the second message decides"
            outcome = outcome.conclude(isinstance(outcome, SlowCheck) and outcome.is_right())
        client.on_server_final(outcome.data)
    except AuthenticationError:
        return False
    return outcome.user == parts_of(issued.token.owner)[1]


def renewed(issued: IssuedToken, expiry_ms: int) -> IssuedToken:
    """The same token with another end."""
    return issued._replace(token=replace(issued.token, expiry_ms=expiry_ms))
