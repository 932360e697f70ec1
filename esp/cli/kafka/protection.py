"""The requests by which ``esp doctor`` learns how a cluster is protected: settings of brokers, rules of access, and certificates."""

import socket
import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from esp.cli.kafka.acls import AclsAdmin
from esp.cli.kafka.client import parse_servers
from esp.cli.kafka.command_config import settings_for
from esp.cli.kafka.library import DescribeConfigsRequest, KafkaError
from esp.cli.kafka.quotas import is_of_esp
from esp.cli.kafka.tokens import tokens
from esp.cli.kafka.users import UsersAdmin
from esp.doctor.protection import (
    PLAINTEXT,
    HashedPassword,
    LivingToken,
    OwnProtection,
    Protection,
    ShownCertificate,
)
from esp.model.acl import AclBinding
from esp.model.acl_filter import EVERY_RULE
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import NodeId
from esp.settings.addresses import SECURITY_PROTOCOLS
from esp.settings.subjects.access import split_principals

_BROKER: Final = 4
_DYNAMIC_SOURCES: Final = (2, 3)
"""The sources of a setting that stands in the metadata log, of one broker and of all (``ConfigEntry.ConfigSource``)."""
_GROUPS: Final = "sasl.oauthbearer.groups.claim.name"
_TOKENS_KEY: Final = "delegation.token.secret.key"
_DEFAULT_SOURCE: Final = 5
_CONNECT_S: Final = 2.0
_THREADS: Final = 16


class ProtectionAdmin(AclsAdmin, UsersAdmin):
    """Looks at the protection of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def protection(self, addresses: Mapping[int, str], now_ms: int) -> Protection:
        """The protection of the brokers with these addresses, of those that answer."""
        told = self._settings_of(addresses)
        is_ours = is_of_esp(self._servers)
        return Protection(
            {NodeId(node): _own_protection(settings) for node, settings in told.items()},
            _certificates(addresses, now_ms // 1000),
            self._rules(),
            matches_networks=is_ours,
            has_groups=not is_ours or any(map(_takes_groups, told.values())),
            tokens=self._tokens(now_ms) if any(map(_has_tokens, told.values())) else (),
            passwords=self._passwords() if any(map(_has_passwords, told.values())) else (),
        )

    def _settings_of(self, brokers: Iterable[int]) -> dict[int, dict[str, Mapping[str, Any]]]:
        """Each broker's settings by name, as they are told."""
        found: dict[int, dict[str, Mapping[str, Any]]] = {}
        for broker in sorted(brokers):
            request = DescribeConfigsRequest(
                resources=[(_BROKER, str(broker), None)],
                include_synonyms=False,
                include_documentation=False,
                min_version=1,
            )
            try:
                [result] = self._client.send(request, broker).to_dict()["results"]
            except KafkaError:  # it has died since
                continue
            if result["error_code"] == ErrorCode.none:
                found[broker] = {each["name"]: each for each in result["configs"]}
        return found

    def _rules(self) -> tuple[AclBinding, ...]:
        """The rules of access; none where no authorizer is, or where this client may not see them."""
        try:
            return tuple(self.rules([EVERY_RULE]))
        except OperatorError:
            return ()

    def _tokens(self, now_ms: int) -> tuple[LivingToken, ...]:
        """The tokens that this client may see; none where it has not logged in."""
        try:
            found = [known.token for known in tokens(self._servers)]
        except OperatorError:
            return ()
        return tuple(
            LivingToken(
                token.token_id, token.owner, (token.max_ms - token.issue_ms) // 1000, (token.max_ms - now_ms) // 1000
            )
            for token in found
        )

    def _passwords(self) -> tuple[HashedPassword, ...]:
        """The users' credentials; none where this client may not see them."""
        try:
            found = self.users()
        except OperatorError:
            return ()
        return tuple(
            HashedPassword(user, mechanism.sasl_name, count)
            for user, credentials in found.items()
            for mechanism, count in credentials.items()
        )


def _has_tokens(settings: Mapping[str, Mapping[str, Any]]) -> bool:
    """True if the broker has the secret by which tokens are made, whose value it does not tell."""
    return _TOKENS_KEY in settings and settings[_TOKENS_KEY]["config_source"] != _DEFAULT_SOURCE


def _has_passwords(settings: Mapping[str, Mapping[str, Any]]) -> bool:
    """True if clients log in at the broker by SCRAM."""
    return "SCRAM-" in ((settings.get("sasl.enabled.mechanisms") or {}).get("value") or "")


def _takes_groups(settings: Mapping[str, Mapping[str, Any]]) -> bool:
    """True if a listener of the broker takes groups from tokens; the setting may have a listener's prefix; its value is not told."""
    return any(name.endswith(_GROUPS) and each["value"] != "" for name, each in settings.items())


def _own_protection(settings: Mapping[str, Mapping[str, Any]]) -> OwnProtection:
    def text(name: str) -> str:
        return (settings.get(name) or {}).get("value") or ""

    protocols = dict(pair.split(":", 1) for pair in text("listener.security.protocol.map").split(",") if ":" in pair)
    names = [entry.split("://", 1)[0].upper() for entry in text("listeners").split(",") if "://" in entry]
    secrets = [
        name
        for name, each in settings.items()
        if each["is_sensitive"] and each["config_source"] in _DYNAMIC_SOURCES and each["value"] is None
    ]
    return OwnProtection(
        protocols={name: protocols.get(name, name if name in SECURITY_PROTOCOLS else PLAINTEXT) for name in names},
        mechanisms=frozenset(entry.strip() for entry in text("sasl.enabled.mechanisms").split(",") if entry.strip()),
        super_users=split_principals(text("super.users")),
        has_authorizer=bool(text("authorizer.class.name")),
        is_open_without_rule=text("allow.everyone.if.no.acl.found").strip().lower() == "true",
        secrets=tuple(sorted(secrets)),
    )


def _certificates(addresses: Mapping[int, str], now_s: int) -> tuple[ShownCertificate, ...]:
    """The certificates at these addresses, if this command speaks TLS; of the brokers that show one."""
    context: ssl.SSLContext | None = settings_for({"ssl_context": None}).get("ssl_context")
    if context is None or not addresses:
        return ()
    with ThreadPoolExecutor(min(_THREADS, len(addresses))) as threads:
        ends = threads.map(partial(_find_end_blocking, context), addresses.values())
        return tuple(
            ShownCertificate(NodeId(node), address, end - now_s)
            for (node, address), end in zip(addresses.items(), ends, strict=True)
            if end is not None
        )


def _find_end_blocking(context: ssl.SSLContext, address: str) -> int | None:
    """The time at which the certificate of a broker ends, in seconds of the epoch; None if it shows none that is trusted."""
    [(host, port)] = parse_servers(address)
    try:
        with (
            socket.create_connection((host, port), _CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert()
    except OSError:
        return None
    return int(ssl.cert_time_to_seconds(str(shown["notAfter"]))) if shown else None
