"""The terms of OAUTHBEARER (KIP-255, KIP-768), as settings give them: for listeners that take tokens, and for log-ins by tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from esp.model.tls import TlsPolicy
from esp.model.web_place import WebPlace


@dataclass(frozen=True, slots=True)
class OauthTerms:
    """The terms on which a listener believes an access token.

    Attributes:
        keys: the place of the provider's keys (JWKS).
        issuer: the issuer that a token must name.
        audiences: the audiences one of which a token must name.
        tls: the terms of connections to an endpoint.
        clock_skew_ms: the time by which the provider's clock may be ahead.
        subject_claim: the claim that names the user.
        scope_claim: the claim that lists scopes.
        groups_claim: the claim that lists the user's groups; empty: tokens prove no groups.
        refresh_ms: the time after which keys are fetched again.
        backoff_ms: the time after a failed fetch, or after one for a key that was not there, before the next one.
        backoff_max_ms: the most to which that time grows.
    """

    keys: WebPlace
    issuer: str
    audiences: tuple[str, ...]
    tls: TlsPolicy | None = None
    clock_skew_ms: int = 30_000
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    groups_claim: str = ""
    refresh_ms: int = 3_600_000
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class OauthLogin:
    """The terms on which this process gets tokens for its own log-ins. Its text shows no secret.

    Attributes:
        source: a file that holds a token, or an endpoint that gives one for the client's credentials (RFC 6749, 4.4).
        client_id: this process's name at the endpoint.
        client_secret: its password there.
        scope: the scope that it asks for; empty: the provider's own choice.
        extensions: names and values that are sent with the token (KIP-342).
        tls: the terms of connections to the endpoint.
        connect_timeout_ms: the time that a connection to the endpoint may take.
        read_timeout_ms: the time that its answer may take.
        backoff_ms: the time after a failed request before the next one.
        backoff_max_ms: the time after which a log-in gives the requests up.
        refresh_factor: the part of a token's life after which another one is got.
        refresh_jitter: a random part of its life up to this one is added to that.
        refresh_min_ms: the least time between two tokens.
        refresh_buffer_ms: the time before a token's end at which another one is got at the latest.
    """

    source: WebPlace
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    tls: TlsPolicy | None = None
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    refresh_factor: float = 0.8
    refresh_jitter: float = 0.05
    refresh_min_ms: int = 60_000
    refresh_buffer_ms: int = 300_000
