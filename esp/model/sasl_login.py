"""The log-in of a node, or of a tool, as a client of listeners that authenticate by SASL."""

from dataclasses import dataclass, field

from esp.model.oauth import OauthLogin
from esp.model.sasl import SaslMechanism


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """The terms on which this process logs in. Its text shows no password.

    Attributes:
        mechanism: the mechanism that it chooses.
        username: its name; by OAUTHBEARER, words for messages.
        password: its password.
        is_token: whether both are those of a delegation token.
        setting: the setting that they stand in, for messages.
        oauth: the terms of tokens, where the mechanism is OAUTHBEARER.
    """

    mechanism: SaslMechanism
    username: str
    password: str = field(repr=False)
    is_token: bool = False
    setting: str = ""
    oauth: OauthLogin | None = None
