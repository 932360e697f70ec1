"""``esp broker --secure``: one node, a cluster of its own, that is secure from its first start. Its files are in ``DATA_DIR-security``."""

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from esp.broker.formatting import Standalone
from esp.broker.node_directories import controller_endpoints
from esp.cli.node.cluster_plan import SECURITY_SETTINGS
from esp.cli.node.format import format_node, random_uuid
from esp.cli.node.security import CLIENTS, CONTROLLER, HOSTS, NODES, Security, over_made_settings
from esp.cli.node.settings import DEFAULT_DATA_DIR, load_settings, security_path
from esp.cli.properties import parse_pairs
from esp.cli.whole_files import close_directory_blocking, keep_files_private
from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.ports.env import Env
from esp.ports.network import Address
from esp.settings.addresses import ANY_PORT, Listener
from esp.settings.broker import BrokerSettings
from esp.settings.listeners import parse_listeners
from esp.settings.setting import SettingError
from esp.storage.layout import META_PROPERTIES_FILE
from esp.storage.meta_properties import read_meta_properties

_LISTENERS: Final = f"{CLIENTS}://127.0.0.1:9092"
_OF_THE_NODE: Final = Listener(NODES, "127.0.0.1", ANY_PORT)
"""The node itself is the only one that connects to it; the settings add the controller's listener by themselves."""
_EXAMPLE: Final = Listener(CLIENTS, "127.0.0.1", 9092)
_NAMES_OF_LISTENERS: Final = (CLIENTS, NODES, CONTROLLER)
_OWN_SETTINGS: Final = SECURITY_SETTINGS | {"controller.listener.names"}
_UNROUTABLE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - recognised here, bound nowhere


class LoneNode(NamedTuple):
    """A node that is ready to be started."""

    settings: BrokerSettings
    security: Security

    def on_ready_blocking(self, env: Env, listening: Address) -> None:
        """Write the settings of clients, now that the node's port is known.

        Raises:
            OperatorError: the files cannot be written.
        """
        told = self.settings.advertised_listeners[0]
        self.security.write_client_settings_blocking(
            str(Address(told.host or env.host.name, told.port or listening.port))
        )


def prepare_blocking(env: Env, options: argparse.Namespace) -> LoneNode:
    """Make what is missing: authority, certificate, password, settings, and the node's data directories.

    Raises:
        OperatorError: the node's own settings are in the way, or its data is of a node without protection.
    """
    if options.config is not None:
        raise OperatorError(
            "--secure makes the settings of a node itself, and --config names a file of others.",
            "Leave one of them out; with a file, its settings decide how the node is protected.",
        )
    given = parse_pairs("--set", options.overrides)
    own = sorted(_OWN_SETTINGS & given.keys())
    if own:
        raise OperatorError(f"--set {own[0]}: with --secure the node has its own.", f"Leave {own[0]} out.")
    given |= {
        name: with_own_listener(name, given[name]) for name in ("listeners", "advertised.listeners") if name in given
    }
    data_dir = options.data_dir or given.get("log.dirs", DEFAULT_DATA_DIR).split(",")[0].strip()
    security = Security(Path(security_path(data_dir)))
    meta = read_meta_properties(env.disk, str(Path(data_dir) / META_PROPERTIES_FILE))
    if meta is not None and not security.exists:
        raise OperatorError(
            f"{data_dir} has the data of a node that was started without --secure.",
            "Leave --secure out, or name another --data-dir.",
        )
    keep_files_private()
    security.create_blocking(env.random)
    listeners = given.get("listeners", with_own_listener("listeners", _LISTENERS))
    number = given.get("node.id", str(BrokerSettings().node_id))
    made = security.settings_of_blocking(
        NodeId(int(number) if number.isdecimal() else 0),
        _hosts(env, listeners, given.get("advertised.listeners", "")),
    )
    whole = over_made_settings({"listeners": listeners} | made, given)
    overrides = [f"{name}={value}" for name, value in whole.items()]
    settings = load_settings(argparse.Namespace(**(vars(options) | {"overrides": overrides})))
    if not settings.is_quorum_of_its_own:
        raise OperatorError(
            "--secure is for a node that is a cluster of its own.",
            "For several nodes on this host: esp cluster start --secure. For others docs/SECURITY.md has the settings.",
        )
    for directory in dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir or settings.log_dirs[0])):
        close_directory_blocking(Path(directory))
    voters = Standalone(controller_endpoints(settings, env.host.name))
    first = security.first_metadata_blocking(env.random)
    cluster_id = random_uuid() if meta is None else meta.cluster_id
    format_node(env, settings, cluster_id, voters, ignore_formatted=True, first=first)
    return LoneNode(settings, security)


def with_own_listener(setting: str, text: str) -> str:
    """Return the listeners of a node: the one for clients first, and one for the node itself if an operator gives none.

    Args:
        setting: ``listeners`` or ``advertised.listeners``.
        text: its value.

    Raises:
        OperatorError: it is malformed, a listener has another name than those of a secure node, or there is none for clients.
    """

    def refusal(problem: str, client: Listener = _EXAMPLE) -> OperatorError:
        return OperatorError(
            f"--set {setting}={text}: {problem}",
            f"The listener for clients is {CLIENTS}, as in {setting}={client._replace(name=CLIENTS)}; "
            f"the node's own listeners, {NODES} and {CONTROLLER}, may be left out.",
        )

    try:
        listeners = parse_listeners([each.strip() for each in text.split(",")])
    except SettingError as error:
        raise refusal("a listener is written NAME://HOST:PORT, and each has a name of its own.") from error
    by_name = {listener.name: listener for listener in listeners}
    foreign = next((listener for listener in listeners if listener.name not in _NAMES_OF_LISTENERS), None)
    if foreign is not None:
        raise refusal(f"a secure node has no listener {foreign.name}.", foreign)
    if CLIENTS not in by_name:
        raise refusal("it names no listener for clients.")
    by_name = {CLIENTS: by_name[CLIENTS], NODES: _OF_THE_NODE, **by_name}
    return ",".join(map(str, by_name.values()))


def _hosts(env: Env, *listeners: str) -> tuple[str, ...]:
    """The names and addresses at which the node is found, once each; listeners as :func:`with_own_listener` returns them."""
    found = [*HOSTS, env.host.name]
    for text in filter(None, listeners):
        found += (listener.host for listener in parse_listeners(text.split(",")))
    return tuple(host for host in dict.fromkeys(found) if host not in _UNROUTABLE)
