"""A node's settings for rules of access and delegation tokens."""

from dataclasses import dataclass
from typing import Final

from esp.settings.setting import Kind, SettingError, Value, at_least, setting

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The value of ``authorizer.class.name`` that has rules of access enforced; the authorizer is ESP's own."""


def _authorizer(value: Value) -> None:
    if value not in ("", STANDARD_AUTHORIZER):
        raise SettingError(f"Foreign classes are not loaded; the one authorizer is {STANDARD_AUTHORIZER}")


def _principals(value: Value) -> None:
    for principal in split_principals(str(value)):
        kind, separator, name = principal.partition(":")
        if not (separator and kind and name):
            raise SettingError(
                f"{principal} is no principal; write type and name, such as User:alice, with ; between two"
            )


def split_principals(text: str) -> tuple[str, ...]:
    """The principals of ``super.users``, which are separated by semicolons: a distinguished name holds commas."""
    return tuple(principal for part in text.split(";") if (principal := part.strip()))


@dataclass(frozen=True, init=False, repr=False, eq=False)
class AccessSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    authorizer_class_name: str | None = setting(
        None,
        Kind.STRING,
        f"Has rules of access enforced: {STANDARD_AUTHORIZER}. Without it every client may do everything.",
        _authorizer,
    )
    super_users: tuple[str, ...] = setting(
        (),
        Kind.STRING,
        "Principals that may do everything, separated by semicolons: User:admin;User:broker.",
        _principals,
    )
    allow_everyone_if_no_acl_found: bool = setting(
        False, Kind.BOOLEAN, "Whether a resource about which there is no rule of access is open to everyone."
    )
    delegation_token_secret_key: str | None = setting(
        None,
        Kind.PASSWORD,
        "The secret that delegation tokens are made by, the same on all nodes. Without it there are none.",
    )
    delegation_token_accepted_secret_key: str | None = setting(
        None,
        Kind.PASSWORD,
        "A second secret, whose tokens are accepted too: the next one before it takes its place, the last one after that. Not Kafka's.",
    )
    delegation_token_max_lifetime_ms: int = setting(
        604_800_000, Kind.LONG, "Milliseconds after which a delegation token cannot be renewed any more.", at_least(1)
    )
    delegation_token_expiry_time_ms: int = setting(
        86_400_000, Kind.LONG, "Milliseconds for which a delegation token counts unless it is renewed.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        3_600_000,
        Kind.LONG,
        "Milliseconds between two removals of expired delegation tokens by the active controller.",
        at_least(1),
    )
