"""The files and settings of nodes that are secure from their first start (``--secure``).

Clients log in by SCRAM over TLS, on a listener of their own. Nodes know one another by certificates. An authorizer lets a client do what
rules allow; the nodes and one administrator, whose password is random, may do everything. All of it is in one directory::

    certs/ca.pem                  the authority that nodes and clients trust; no secret
    certs/ca-key.pem              its key: `esp certs --dir certs` issues and renews with it
    certs/node-1.pem              the key and certificate of node 1
    admin/password                the administrator's
    admin/client.properties       settings of its clients: for Java and the `esp` commands,
    admin/librdkafka.properties   for librdkafka and kcat,
    admin/kafka-python.json       for kafka-python and aiokafka,
    admin/spark.json              and for Spark's source and sink
    tokens.properties             the secret that the passwords of delegation tokens are made of; the nodes' settings refer to it

Only the owner may read the files, except ``ca.pem``. The first password is in the metadata that the directories are formatted with, as the
hash that SCRAM keeps.
"""

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from esp.cli.certs.authority import Wanted
from esp.cli.certs.directory import CertificateDirectory
from esp.cli.whole_files import SECRET, make_private_directory_blocking, write_whole_blocking
from esp.controller.bootstrap import FirstMetadata
from esp.controller.snapshot_records import scram_credential_record
from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.model.scram import USUAL_ITERATIONS, ScramMechanism
from esp.model.scram_keys import make_credential
from esp.ports.random import Random, random_bytes
from esp.settings.subjects.access import STANDARD_AUTHORIZER

log = logging.getLogger(__name__)

CLIENTS: Final = "CLIENTS"
NODES: Final = "NODES"
CONTROLLER: Final = "CONTROLLER"
ADMINISTRATOR: Final = "admin"
MECHANISM: Final = ScramMechanism.SCRAM_SHA_512
HOSTS: Final = ("127.0.0.1", "::1", "localhost")
_AUTHORITY_DAYS: Final = 3_650
_NODE_DAYS: Final = 365
_PASSWORD_BYTES: Final = 24
_SALT_BYTES: Final = 32
_TOKEN_SECRET: Final = "delegation.token.secret.key"  # noqa: S105 - a setting
_ASCII_MAX: Final = 0x7F
_TOKEN_SECRET_BYTES: Final = 48
_PROVIDERS: Final = "config.providers"
_PROVIDER: Final = "secure"
_PROVIDER_CLASS: Final = "org.apache.kafka.common.config.provider.FileConfigProvider"
_NODE_PRINCIPAL: Final = "CN=node"
"""The principal of all nodes is ``User:CN=node``: nodes that are added later need no change of the others' settings."""


class Security:
    """The directory of a cluster's protection.

    Args:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._certificates = CertificateDirectory(path / "certs")
        self._admin = path / "admin"

    @property
    def exists(self) -> bool:
        """True if it has been made, or its making has begun."""
        return self.path.exists()

    def create_blocking(self, random: Random) -> None:
        """Make the authority, the administrator's password and the secret of tokens; what there is already stays.

        Raises:
            OperatorError: the files cannot be written.
        """
        for directory in (self.path, self._admin):
            make_private_directory_blocking(directory)
        if not self._certificates.trusted.exists():
            self._certificates.create_blocking("ESP", _AUTHORITY_DAYS, datetime.now(UTC))
        if not self._password_file.exists():
            password = base64.urlsafe_b64encode(random_bytes(random, _PASSWORD_BYTES))
            write_whole_blocking(self._password_file, password + b"\n", SECRET)
        if not self._tokens_file.exists():
            secret = base64.urlsafe_b64encode(random_bytes(random, _TOKEN_SECRET_BYTES))
            write_whole_blocking(self._tokens_file, f"{_TOKEN_SECRET}={secret.decode()}\n".encode(), SECRET)

    def settings_of_blocking(self, node_id: NodeId, hosts: Sequence[str] = HOSTS) -> dict[str, str]:
        """Return a node's settings besides its addresses; it gets a certificate if it has none, or one that is not for all hosts.

        Without the authority's key a certificate stays as it is, and the log says what its clients will refuse.

        Args:
            node_id: the node.
            hosts: the names and addresses at which it is found.

        Raises:
            OperatorError: its certificate cannot be made.
        """
        name = f"node-{node_id}"
        store = self._certificates.store_of(name)
        if not store.exists():
            wanted = Wanted(name, hosts, _NODE_DAYS)
            self._certificates.issue_blocking(name, wanted, datetime.now(UTC), replaces=False)
        else:
            self._cover_blocking(name, hosts)
        return {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{NODES}:SSL,{CONTROLLER}:SSL",
            "inter.broker.listener.name": NODES,
            "sasl.enabled.mechanisms": ",".join(mechanism.sasl_name for mechanism in ScramMechanism),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._certificates.trusted),
            f"listener.name.{NODES.lower()}.ssl.client.auth": "required",
            f"listener.name.{CONTROLLER.lower()}.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": f"RULE:^({_NODE_PRINCIPAL})-[0-9]+$/$1/,DEFAULT",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{_NODE_PRINCIPAL};User:{ADMINISTRATOR}",
            **self._token_settings(),
        }

    def _cover_blocking(self, name: str, hosts: Sequence[str]) -> None:
        """Have a node's certificate be for all hosts at which it is found now, or warn."""
        store = self._certificates.store_of(name)
        missing: tuple[str, ...] = tuple(hosts)
        try:
            missing = self._certificates.find_missing_hosts_blocking(name, hosts)
            if missing:
                self._certificates.add_hosts_blocking(name, missing, _NODE_DAYS, datetime.now(UTC))
                log.warning(
                    "the certificate in %s was not for %s: it is renewed, for that too", store, ", ".join(missing)
                )
        except OperatorError as error:
            log.warning(
                "the certificate in %s is not known to be for %s, and cannot be renewed (%s): clients that connect to a host that it does "
                "not name refuse it. Where ca-key.pem is: esp certs issue %s --dir %s %s --replace",
                store,
                ", ".join(missing),
                error,
                name,
                store.parent,
                " ".join(f"--host {host}" for host in hosts),
            )

    def _token_settings(self) -> dict[str, str]:
        """The settings by which a node makes delegation tokens and takes them.

        There are none where another release has made the directory, until the whole cluster is started again, and where a reference cannot
        name the file.
        """
        path = str(self._tokens_file)
        if not self._tokens_file.exists() or any(mark in path for mark in ":}"):
            return {}
        return {
            _PROVIDERS: _PROVIDER,
            f"{_PROVIDERS}.{_PROVIDER}.class": _PROVIDER_CLASS,
            _TOKEN_SECRET: f"${{{_PROVIDER}:{path}:{_TOKEN_SECRET}}}",
        }

    def first_metadata_blocking(self, random: Random) -> FirstMetadata:
        """Return the metadata that a new cluster begins with: it lets the administrator log in."""
        password = self._password_blocking()
        credential = make_credential(MECHANISM, password, random_bytes(random, _SALT_BYTES), USUAL_ITERATIONS)
        return FirstMetadata(credentials=(scram_credential_record(ADMINISTRATOR, MECHANISM, credential),))

    def first_users_blocking(self) -> Sequence[str]:
        """Return the users that a new cluster begins with, in the words of ``esp format --add-scram``."""
        return (f'{MECHANISM.sasl_name}=[name={ADMINISTRATOR},password="{self._password_blocking()}"]',)

    def write_client_settings_blocking(self, bootstrap: str) -> None:
        """Write the settings of the administrator's clients.

        Args:
            bootstrap: the addresses of the nodes, ``HOST:PORT`` separated by commas.

        Raises:
            OperatorError: the files cannot be written.
        """
        password, trusted = self._password_blocking(), str(self._certificates.trusted)
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        java = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.jaas.config": f'{module} required username="{ADMINISTRATOR}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": trusted,
        }
        librdkafka = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.username": ADMINISTRATOR,
            "sasl.password": password,
            "ssl.ca.location": trusted,
        }
        kafka_python = {
            "bootstrap_servers": bootstrap.split(","),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM.sasl_name,
            "sasl_plain_username": ADMINISTRATOR,
            "sasl_plain_password": password,
            "ssl_cafile": trusted,
        }
        self._write("client.properties", _java_properties(java))
        self._write("librdkafka.properties", "".join(f"{name}={value}\n" for name, value in librdkafka.items()))
        self._write("kafka-python.json", _json(kafka_python))
        self._write("spark.json", _json({f"kafka.{name}": value for name, value in java.items()}))

    @property
    def command_config(self) -> Path:
        """The settings of the administrator for the ``esp`` commands and Kafka's tools."""
        return self._admin / "client.properties"

    @property
    def _tokens_file(self) -> Path:
        return self.path / "tokens.properties"

    @property
    def _password_file(self) -> Path:
        return self._admin / "password"

    def _password_blocking(self) -> str:
        return self._password_file.read_text(encoding="ascii").strip()

    def _write(self, name: str, text: str) -> None:
        write_whole_blocking(self._admin / name, text.encode(), SECRET)


def over_made_settings(made: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a node: those that an operator gives over those that were made; providers of values are added to ours."""
    both = [settings[_PROVIDERS] for settings in (made, given) if settings.get(_PROVIDERS)]
    return {**made, **given, **({_PROVIDERS: ",".join(both)} if both else {})}


def _java_properties(settings: Mapping[str, str]) -> str:
    """Return a properties file as Java reads it: as Latin-1, so that other characters, of paths, stand in it as escapes."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(value: str) -> str:
    units = value.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]
    return "".join(f"\\u{code:04x}" if code > _ASCII_MAX else chr(code).replace("\\", "\\\\") for code in codes)


def _json(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, indent=2) + "\n"
