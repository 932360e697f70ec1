"""Rules about protection: doors that stand open, certificates that end, and rules of access that do not do what they seem to."""

from collections.abc import Callable, Iterator
from typing import Final

from esp.controller.topics import find_name_problem
from esp.doctor.protection import PLAINTEXT, SASL_PLAINTEXT, OwnProtection, Protection
from esp.doctor.rule import CLUSTER, Hit, Rule, Severity, at_broker, shell_word
from esp.doctor.snapshot import Snapshot
from esp.model.acl import (
    OPERATIONS,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from esp.model.acl_hosts import find_host, find_matcher, is_host_within
from esp.model.scram import USUAL_ITERATIONS

_HOUR_S: Final = 3_600
_DAY_S: Final = 24 * _HOUR_S
_HOURS_AS_SUCH: Final = 72
_WEEK_DAYS: Final = 7
_MONTH_DAYS: Final = 30
_ANONYMOUS: Final = "User:ANONYMOUS"
_READABLE: Final = frozenset(("OAUTHBEARER", "PLAIN"))
"""The mechanisms that send a secret as it is."""
_SCRAM: Final = "SCRAM-"
_EVERY_USER: Final = "User:*"
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


def _readable_metadata(snapshot: Snapshot) -> Iterator[Hit]:
    """The metadata log, if passwords stand in it: those that are known, or those of a mechanism that keeps them there."""
    protection = snapshot.protection
    files = protection.files
    brokers = protection.brokers.values()
    has_passwords = bool(protection.passwords) or any(
        own.secrets or any(name.startswith(_SCRAM) for name in own.mechanisms) for own in brokers
    )
    if files is not None and has_passwords:
        for path in files.readable_metadata:
            yield Hit(at_broker(files.node), path, f"`chmod -R o-rwx {path}`, then give each user a new password")


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
            yield Hit(CLUSTER, detail, f"`esp users rotate {shell_word(password.user)}`")


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
    if protection.matches_networks:
        if find_matcher(rule.host) is None:
            return "no client has such an address"
    elif rule.host != WILDCARD and find_host(rule.host) is None:
        return "no client has such an address; Kafka knows no networks"
    return _why_no_principal(rule, protection) or _why_no_resource(rule)


def _why_no_principal(rule: AclBinding, protection: Protection) -> str | None:
    kind, separator, name = rule.principal.partition(":")
    is_ours = protection.matches_networks
    if not separator or (kind not in ("User", "Group") and is_ours):  # Kafka may have principals of a foreign builder
        return "no client has such a principal"
    if not name and is_ours:
        return "no client has an empty name"
    if kind == "Group" and not protection.has_groups:
        return "no broker takes groups from tokens (sasl.oauthbearer.groups.claim.name)"
    if kind == "Group" and name == WILDCARD and is_ours:
        return f"it is about a group of the name *, and not about every group: every user is {_EVERY_USER}"
    known = protection.brokers.values()
    if rule.permission is AclPermission.DENY and known and all(rule.principal in own.super_users for own in known):
        return "it is a super user, to which nothing is denied"
    return None


def _why_no_resource(rule: AclBinding) -> str | None:
    kind, name = rule.resource_type, rule.resource_name
    if rule.operation not in (*OPERATIONS[kind], AclOperation.ALL):
        return f"there is no {rule.operation.name} of a {_kind(rule)}"
    if kind is not ResourceType.TOPIC or (rule.pattern_type is PatternType.LITERAL and name == WILDCARD):
        return None
    # A prefix of a valid name may itself be none, such as a dot.
    problem = find_name_problem(f"{name}-" if rule.pattern_type is PatternType.PREFIXED else name)
    return None if problem is None else f"no topic has such a name: {problem}"


_Place = tuple[AclPermission, ResourceType, str, PatternType, str]
"""The parts of a rule by which it is found: all but its host and its operation."""


class _Rules:
    """The rules of a cluster, found by their principals and resources."""

    def __init__(self, protection: Protection) -> None:
        self._has_networks = protection.matches_networks
        self._orders = {rule: number for number, rule in enumerate(protection.rules)}
        self._at: dict[_Place, list[AclBinding]] = {}
        self._lengths: set[int] = set()
        """The lengths of all prefixes."""
        for rule in protection.rules:
            place = (rule.permission, rule.resource_type, rule.principal, rule.pattern_type, rule.resource_name)
            self._at.setdefault(place, []).append(rule)
            if rule.pattern_type is PatternType.PREFIXED:
                self._lengths.add(len(rule.resource_name))

    def find_wider(self, narrow: AclBinding, permission: AclPermission) -> AclBinding | None:
        """Return a rule of this permission that is about everything that another is about; of two that cover one another the first."""
        for pattern, name in self._names(narrow):
            for principal in dict.fromkeys((narrow.principal, _EVERY_USER)):
                for wide in self._at.get((permission, narrow.resource_type, principal, pattern, name), ()):
                    if self._covers(wide, narrow) and not self._is_later_twin(wide, narrow):
                        return wide
        return None

    def _names(self, narrow: AclBinding) -> Iterator[tuple[PatternType, str]]:
        """The names of the resources of all rules that cover the name of a rule."""
        name, pattern = narrow.resource_name, narrow.pattern_type
        yield PatternType.LITERAL, WILDCARD
        if pattern is PatternType.LITERAL:
            if name == WILDCARD:
                return
            yield PatternType.LITERAL, name
        for length in self._lengths:
            if length <= len(name):
                yield PatternType.PREFIXED, name[:length]

    def _covers(self, wide: AclBinding, narrow: AclBinding) -> bool:
        """True if a rule is about all hosts and operations that another is about."""
        is_within = (
            is_host_within(narrow.host, wide.host) if self._has_networks else wide.host in (narrow.host, WILDCARD)
        )
        return is_within and wide.operation in (narrow.operation, AclOperation.ALL)

    def _is_later_twin(self, wide: AclBinding, narrow: AclBinding) -> bool:
        """True if a rule is the other one itself, or comes later and says the same."""
        is_twin = (
            (wide.principal, wide.pattern_type, wide.resource_name, wide.permission, wide.operation)
            == (narrow.principal, narrow.pattern_type, narrow.resource_name, narrow.permission, narrow.operation)
        ) and self._covers(narrow, wide)
        return is_twin and self._orders[wide] >= self._orders[narrow]


def _shadowed(snapshot: Snapshot) -> Iterator[Hit]:
    rules = _Rules(snapshot.protection)
    for rule in snapshot.protection.rules:
        if rule.permission is AclPermission.ALLOW:
            denial = rules.find_wider(rule, AclPermission.DENY)
            if denial is not None:
                yield Hit(
                    CLUSTER,
                    f"{_in_words(rule)}: {_in_words(denial)}",
                    "`esp acls --remove` the one that is not meant",
                )


def _repeated(snapshot: Snapshot) -> Iterator[Hit]:
    rules = _Rules(snapshot.protection)
    for rule in snapshot.protection.rules:
        wider = rules.find_wider(rule, rule.permission)
        if wider is not None:
            yield Hit(CLUSTER, f"{_in_words(rule)}: {_in_words(wider)}", "`esp acls --remove` it, or the wider one")


def _in_words(rule: AclBinding) -> str:
    """A rule in the words of Kafka's tool, on one line."""
    pattern = "*" if rule.pattern_type is PatternType.PREFIXED else ""
    verb = "may" if rule.permission is AclPermission.ALLOW else "may not"
    where = "" if rule.host == WILDCARD else f" from {rule.host}"
    return f"{rule.principal}{where} {verb} {rule.operation.name} {_kind(rule)} {rule.resource_name}{pattern}"


def _kind(rule: AclBinding) -> str:
    return rule.resource_type.name.lower().replace("_", " ")


RULES: Final = (
    Rule(
        "certificate-ends-this-week",
        Severity.ERROR,
        f"certificates that end within {_WEEK_DAYS} days",
        "When it has ended, no client and no other node connects, and its connections with other nodes end.",
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
        "readable-metadata",
        Severity.ERROR,
        "metadata logs with users' passwords that every user of the host may read (with --config)",
        "Of each password it has the keys that check it: with them passwords are guessed, and a log-in that was overheard is repeated.",
        "`chmod -R o-rwx DIRECTORY`, then give each user a new password",
        _readable_metadata,
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
        "rules of access that no client, or no resource, matches, or that deny something to a super user",
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
        "rule-repeated",
        Severity.NOTE,
        "rules of access that change nothing, because a wider one says the same",
        "To remove one of them takes nothing away: the wider one goes on allowing, or denying.",
        "`esp acls --remove` it, or the wider one",
        _repeated,
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
