"""Looks at the files of one node, on its host, for a doctor: revocation lists that end, and secrets and metadata that others may read."""

import os
import stat
from pathlib import Path
from typing import Final

from esp.cli.text_files import PLACES, read_text
from esp.doctor.protection import NodeFiles, RevocationList
from esp.model.ids import METADATA_TOPIC
from esp.raft.snapshot import BOOTSTRAP_FILE
from esp.settings.broker import BrokerSettings
from esp.settings.broker_table import BROKER_SETTINGS
from esp.settings.node import load_broker_settings
from esp.settings.per_listener import unprefixed
from esp.settings.properties import parse_properties
from esp.settings.references import Places
from esp.settings.setting import Kind

_REFERENCE: Final = "${"


def look_at_node_files_blocking(config: str, now_s: float) -> NodeFiles:
    """Return what is to be told of the files that a node's settings name.

    Args:
        config: the file of its settings.
        now_s: the time, in seconds of the epoch.

    Raises:
        OperatorError: a file cannot be read.
    """
    text = read_text(config)
    referred: list[str] = []

    def read_place(path: str) -> str:
        referred.append(path)
        return PLACES.read_text(path)

    settings = load_broker_settings(text, file_name=config, places=Places(read_place, PLACES.environment))
    secret = [config] if _holds_secret(text) else []
    secret += referred
    secret += (each.key_store.location for each in settings.tls.values() if each.key_store.location)
    return NodeFiles(
        settings.node_id,
        _revocations_blocking(settings, now_s),
        tuple(path for path in dict.fromkeys(secret) if is_readable_by_others_blocking(path)),
        _readable_metadata_blocking(Path(settings.metadata_log_dir)),
    )


def _readable_metadata_blocking(directory: Path) -> tuple[str, ...]:
    """Return the directory of the metadata log if other users may read a file in it, and likewise the file that begins the log."""
    log = directory / f"{METADATA_TOPIC}-0"
    try:
        names = os.listdir(log)
    except OSError:  # there is none, or its owner alone may look
        names = []
    found = (str(log),) if any(is_readable_by_others_blocking(str(log / name)) for name in names) else ()
    beginning = str(directory / BOOTSTRAP_FILE)
    return (*found, beginning) if is_readable_by_others_blocking(beginning) else found


def is_readable_by_others_blocking(path: str) -> bool:
    """True if users that are neither the file's owner nor of its group reach and read it; False if it cannot be looked at."""
    file = Path(path).resolve()
    try:
        if not file.stat().st_mode & stat.S_IROTH:
            return False
        return all(os.stat(parent).st_mode & stat.S_IXOTH for parent in file.parents)
    except OSError:
        return False


def _holds_secret(text: str) -> bool:
    """True if a settings file has a password itself, and not only a reference to it."""
    for each in parse_properties(text):
        setting = BROKER_SETTINGS.get(unprefixed(each.name) or each.name)
        if setting is not None and setting.kind is Kind.PASSWORD and each.value and _REFERENCE not in each.value:
            return True
    return False


def _revocations_blocking(settings: BrokerSettings, now_s: float) -> tuple[RevocationList, ...]:
    if not settings.tls:
        return ()
    from esp.runtime.tls.stores import read_revocations_blocking

    found: dict[tuple[str, str], RevocationList] = {}
    for policy in settings.tls.values():
        for authority, ends in read_revocations_blocking(policy):
            if ends is not None:
                place = policy.trust_store.location or "ssl.truststore.certificates"
                found[place, authority] = RevocationList(place, authority, int(ends.timestamp() - now_s))
    return tuple(found.values())
