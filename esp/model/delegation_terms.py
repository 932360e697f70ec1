"""The settings of a node about delegation tokens, without what is made of them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DelegationTerms:
    """The terms on which a node makes delegation tokens and takes them. Their text shows no secret.

    Attributes:
        key: the secret that tokens' passwords are made by (``delegation.token.secret.key``); empty: there are no tokens here.
        accepted_key: a second one, whose passwords count too (``delegation.token.accepted.secret.key``); empty: there is none.
        max_lifetime_ms: the longest time for which a token can be renewed (``delegation.token.max.lifetime.ms``).
        expiry_time_ms: the time for which it counts without a renewal (``delegation.token.expiry.time.ms``).
        check_interval_ms: the interval at which expired tokens are removed (``delegation.token.expiry.check.interval.ms``).
    """

    key: str = field(default="", repr=False)
    accepted_key: str = field(default="", repr=False)
    max_lifetime_ms: int = 604_800_000
    expiry_time_ms: int = 86_400_000
    check_interval_ms: int = 3_600_000

    @property
    def is_enabled(self) -> bool:
        """True if there may be tokens."""
        return bool(self.key)
