"""Rules about protection: doors that stand open, certificates that end, and rules of access that do not do what they seem to."""

from collections.abc import Callable, Iterator
from typing import Final

from esp.doctor.protection import PLAINTEXT, SASL_PLAINTEXT, OwnProtection, Protection
from esp.doctor.rule import CLUSTER, Hit, Rule, Severity, at_broker
from esp.doctor.snapshot import Snapshot
from esp.model.acl import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType
from esp.model.acl_hosts import find_host, find_matcher
from esp.model.scram import USUAL_ITERATIONS

_HOUR_S: Final = 3_600
_DAY_S: Final = 24 * _HOUR_S
_HOURS_AS_SUCH: Final = 72
_WEEK_DAYS: Final = 7
_MONTH_DAYS: Final = 30
_ANONYMOUS: Final = "User:ANONYMOUS"
_READABLE: Final = frozenset(("OAUTHBEARER", "PLAIN"))
"""The mechanisms that send a secret as it is."""
_EVERY_USER: Final = "User:*"
_GROUP: Final = "Group:"
_RENEW: Final = "put a new certificate into the file of `ssl.keystore.location`; `esp certs renew` makes one"
_NEXT_LIST: Final = "put the authority's newest list into the file of `ssl.truststore.location`"
_ANOTHER: Final = "`esp tokens create`, and give the new token to the programs that use this one"


def _ending(first_day: int, days: int) -> Callable[[Snapshot], Iterator[Hit]]:
    """Certificates that end after so many days, and before the other number."""

    def check(snapshot: Snapshot) -> Iterator[Hit]:
        for shown in snapshot.protection.certificates:
            left = shown.ends_in_s // _DAY_S
            if first_day <= left < days or (left < 0 and not first_day):
                detail = f"ends in {left} days" if left >= 0 else "has ended"
                yield Hit(at_broker(shown.broker), f"the certificate at {shown.address} {detail}", _RENEW)

    return check


def _ending_lists(first_day: int, days: int) -> Callable[[Snapshot], Iterator[Hit]]:
    """Revocation lists that end after so many days, and before the other number."""

    def check(snapshot: Snapshot) -> Iterator[Hit]:
        files = snapshot.protection.files
        for each in files.revocations if files is not None else ():
            left = each.ends_in_s // _DAY_S
            if files is not None and (first_day <= left < days or (left < 0 and not first_day)):
                detail = f"ends in {left} days" if left >= 0 else "has ended"
                yield Hit(at_broker(files.node), f"the list of {each.authority} in {each.path} {detail}", _NEXT_LIST)

    return check


def _readable_secrets(snapshot: Snapshot) -> Iterator[Hit]:
    files = snapshot.protection.files
    if files is not None:
        for path in files.readable:
            yield Hit(at_broker(files.node), path, f"`chmod o-r {path}`, then change the secret")


def _ending_tokens(snapshot: Snapshot) -> Iterator[Hit]:
    """Tokens in the last quarter of their life, which is the last week of a long one."""
    for token in snapshot.protection.tokens:
        if 0 <= token.ends_in_s < min(_WEEK_DAYS * _DAY_S, token.life_s // 4):
            hours = token.ends_in_s // _HOUR_S
            left = f"{hours} hours" if hours < _HOURS_AS_SUCH else f"{hours // 24} days"
            yield Hit(CLUSTER, f"token {token.token_id} of {token.owner} ends in {left}", _ANOTHER)


def _few_iterations(snapshot: Snapshot) -> Iterator[Hit]:
    for password in snapshot.protection.passwords:
        if password.iterations < USUAL_ITERATIONS:
            detail = f"{password.user}: {password.mechanism} with {password.iterations:,} iterations"
            yield Hit(CLUSTER, detail, f"`esp users rotate {password.user}`")


def _of_brokers(found: Callable[[OwnProtection], str | None], remedy: str) -> Callable[[Snapshot], Iterator[Hit]]:
    """Brokers whose settings have a fault."""

    def check(snapshot: Snapshot) -> Iterator[Hit]:
        for node, own in sorted(snapshot.protection.brokers.items()):
            detail = found(own)
            if detail is not None:
                yield Hit(at_broker(node), detail, remedy)

    return check


def _anonymous(own: OwnProtection) -> str | None:
    return f"{_ANONYMOUS} is one of super.users" if own.has_authorizer and _ANONYMOUS in own.super_users else None


def _secrets(own: OwnProtection) -> str | None:
    return f"set as dynamic settings: {', '.join(own.secrets)}" if own.secrets else None


def _open_listener(own: OwnProtection) -> str | None:
    doors = sorted(name for name, protocol in own.protocols.items() if protocol == PLAINTEXT)
    return f"{', '.join(doors)} speaks PLAINTEXT" if doors and own.is_protected else None


def _readable_passwords(own: OwnProtection) -> str | None:
    doors = sorted(name for name, protocol in own.protocols.items() if protocol == SASL_PLAINTEXT)
    readable = sorted(own.mechanisms & _READABLE)
    return f"{', '.join(readable)} on {', '.join(doors)}" if doors and readable else None


def _open_resources(own: OwnProtection) -> str | None:
    return "allow.everyone.if.no.acl.found=true" if own.has_authorizer and own.is_open_without_rule else None


def _for_nobody(snapshot: Snapshot) -> Iterator[Hit]:
    protection = snapshot.protection
    for rule in protection.rules:
        reason = _why_nobody(rule, protection)
        if reason is not None:
            yield Hit(
                CLUSTER,
                f"{_in_words(rule)}: {reason}",
                "`esp acls --remove` it, and `esp acls --add` the rule that was meant",
            )


def _why_nobody(rule: AclBinding, protection: Protection) -> str | None:
    host, matches_networks = rule.host, protection.matches_networks
    if host != WILDCARD:
        if matches_networks and find_matcher(host) is None:
            return "no client has such an address"
        if not matches_networks and find_host(host) is None:
            return "no client has such an address; Kafka knows no networks"
    if rule.principal.startswith(_GROUP) and not protection.has_groups:
        return "no broker takes groups from tokens (sasl.oauthbearer.groups.claim.name)"
    if not rule.principal.startswith(("User:", _GROUP)):
        return "no client has such a principal"
    return None


def _shadowed(snapshot: Snapshot) -> Iterator[Hit]:
    rules = snapshot.protection.rules
    denials = [rule for rule in rules if rule.permission is AclPermission.DENY]
    for rule in rules:
        if rule.permission is AclPermission.ALLOW:
            denial = next((each for each in denials if _covers(each, rule)), None)
            if denial is not None:
                yield Hit(
                    CLUSTER,
                    f"{_in_words(rule)}: {_in_words(denial)}",
                    "`esp acls --remove` the one that is not meant",
                )


def _covers(wide: AclBinding, narrow: AclBinding) -> bool:
    """True if a rule is about everything that another is about."""
    return (
        wide.resource_type is narrow.resource_type
        and _covers_name(wide, narrow)
        and wide.principal in (narrow.principal, _EVERY_USER)
        and wide.host in (narrow.host, WILDCARD)
        and wide.operation in (narrow.operation, AclOperation.ALL)
    )


def _covers_name(wide: AclBinding, narrow: AclBinding) -> bool:
    if wide.pattern_type is PatternType.PREFIXED:
        is_all = narrow.pattern_type is PatternType.LITERAL and narrow.resource_name == WILDCARD
        return not is_all and narrow.resource_name.startswith(wide.resource_name)
    if wide.resource_name == WILDCARD:
        return True
    return narrow.pattern_type is PatternType.LITERAL and narrow.resource_name == wide.resource_name


def _in_words(rule: AclBinding) -> str:
    """A rule in the words of Kafka's tool, on one line."""
    pattern = "*" if rule.pattern_type is PatternType.PREFIXED else ""
    verb = "may" if rule.permission is AclPermission.ALLOW else "may not"
    where = "" if rule.host == WILDCARD else f" from {rule.host}"
    kind = rule.resource_type.name.lower().replace("_", " ")
    return f"{rule.principal}{where} {verb} {rule.operation.name} {kind} {rule.resource_name}{pattern}"


RULES: Final = (
    Rule(
        "certificate-ends-this-week",
        Severity.ERROR,
        f"certificates that end within {_WEEK_DAYS} days",
        "When it has ended no client and no other node connects, and connections that there are end.",
        _RENEW,
        _ending(0, _WEEK_DAYS),
    ),
    Rule(
        "revocations-end-this-week",
        Severity.ERROR,
        f"revocation lists that end within {_WEEK_DAYS} days (with --config)",
        "When a list has ended, every certificate of its authority is refused, and the node does not start.",
        _NEXT_LIST,
        _ending_lists(0, _WEEK_DAYS),
    ),
    Rule(
        "readable-secret",
        Severity.ERROR,
        "files with secrets that every user of the host may read (with --config)",
        "A private key or a password that others have read lets them be the node.",
        "`chmod o-r FILE`, then change the secret",
        _readable_secrets,
    ),
    Rule(
        "anonymous-super-user",
        Severity.ERROR,
        "clients without a name that may do everything",
        "Every client of a listener without log-in or certificates is User:ANONYMOUS.",
        "remove User:ANONYMOUS from `super.users`",
        _of_brokers(_anonymous, "remove User:ANONYMOUS from `super.users`"),
    ),
    Rule(
        "secret-in-metadata",
        Severity.ERROR,
        "passwords that stand in the metadata log",
        "Kafka keeps a password that is set while it runs as plain text in the log of every node.",
        "`esp configs --alter --entity-type brokers --entity-name BROKER --delete-config NAME`, then change the password",
        _of_brokers(_secrets, "`esp configs --alter … --delete-config`, then change the password"),
    ),
    Rule(
        "certificate-ends-this-month",
        Severity.WARNING,
        f"certificates that end within {_MONTH_DAYS} days",
        "There is time to renew it while everything works.",
        _RENEW,
        _ending(_WEEK_DAYS, _MONTH_DAYS),
    ),
    Rule(
        "revocations-end-this-month",
        Severity.WARNING,
        f"revocation lists that end within {_MONTH_DAYS} days (with --config)",
        "There is time to get the next one while everything works.",
        _NEXT_LIST,
        _ending_lists(_WEEK_DAYS, _MONTH_DAYS),
    ),
    Rule(
        "token-ends-soon",
        Severity.WARNING,
        "delegation tokens in the last quarter of their life, or its last week, that cannot be renewed any more then",
        "The programs that log in by it are refused from then on, and their connections end.",
        _ANOTHER,
        _ending_tokens,
    ),
    Rule(
        "open-listener",
        Severity.WARNING,
        "listeners without protection beside protected ones",
        "The door that is open decides how safe the others are.",
        "give it another protocol in `listener.security.protocol.map`, or bind it where only trusted hosts reach it",
        _of_brokers(
            _open_listener,
            "give it another protocol in `listener.security.protocol.map`, or bind it where only trusted hosts reach it",
        ),
    ),
    Rule(
        "readable-passwords",
        Severity.WARNING,
        "listeners on which passwords or tokens travel unencrypted",
        "Anyone on the way reads them: SASL_PLAINTEXT does not encrypt, and PLAIN sends a password, OAUTHBEARER a token, as it is.",
        "use SASL_SSL, or SCRAM",
        _of_brokers(_readable_passwords, "use SASL_SSL, or SCRAM"),
    ),
    Rule(
        "open-resources",
        Severity.WARNING,
        "resources that are open to everyone as long as no rule is about them",
        "A new topic is open until its first rule, and again when its last one is removed.",
        "set `allow.everyone.if.no.acl.found=false` when there are rules for all clients",
        _of_brokers(_open_resources, "set `allow.everyone.if.no.acl.found=false` when there are rules for all clients"),
    ),
    Rule(
        "rule-for-nobody",
        Severity.WARNING,
        "rules of access that no client matches",
        "A denial among them denies nothing.",
        "`esp acls --remove` it, and `esp acls --add` the rule that was meant",
        _for_nobody,
    ),
    Rule(
        "rule-shadowed",
        Severity.NOTE,
        "rules of access that allow nothing, because another one denies it",
        "Denial goes before permission, however narrow the permission is.",
        "`esp acls --remove` the one that is not meant",
        _shadowed,
    ),
    Rule(
        "few-iterations",
        Severity.NOTE,
        f"passwords that are hashed with fewer than {USUAL_ITERATIONS:,} iterations, which `esp users` uses",
        "A chosen password is guessed the sooner if the metadata log is stolen. Kafka's tools use 4,096 by default.",
        "`esp users rotate NAME`, which makes a new password",
        _few_iterations,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
