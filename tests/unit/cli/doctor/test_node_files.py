"""The files of a node, as the doctor finds them on its host."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from esp.cli.doctor.node_files import is_readable_by_others_blocking, look_at_node_files_blocking
from esp.model.errors import OperatorError
from tests.models.certificates import Authority

AUTHORITY = Authority()
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture
def reached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that every user may enter, as may be those around it, but for the one of pytest's user."""
    directory = tmp_path_factory.mktemp("reached")
    for each in (directory, *directory.parents):
        if each.owner() == Path.home().owner() and not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o001)
    return directory


def written(path: Path, text: str, mode: int) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def secure_settings(directory: Path, *more: str, store_mode: int = 0o600) -> str:
    store = directory / "node.pem"
    AUTHORITY.issue().write_pem(store)
    store.chmod(store_mode)
    trusted = written(directory / "trust.pem", AUTHORITY.pem + AUTHORITY.revocations_pem(), 0o644)
    lines = (
        "listeners=CLIENTS://127.0.0.1:9092",
        "listener.security.protocol.map=CLIENTS:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name=CLIENTS",
        "node.id=4",
        f"ssl.keystore.type=PEM\nssl.keystore.location={store}",
        f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}",
        *more,
    )
    return "\n".join(lines) + "\n"


def test_private_files_are_not_told_and_lists_are(reached: Path) -> None:
    config = written(reached / "server.properties", secure_settings(reached), 0o644)
    files = look_at_node_files_blocking(str(config), time.time())
    assert (files.node, files.readable) == (4, ())
    ((path, authority, ends_in_s),) = files.revocations
    assert (path, authority) == (str(reached / "trust.pem"), "CN=Test CA")
    assert 86_000 < ends_in_s <= 86_400


def test_lists_that_have_ended_are_told_too(reached: Path) -> None:
    config = written(reached / "server.properties", secure_settings(reached), 0o644)
    late = AUTHORITY.revocations_pem(renewed=datetime.now(UTC) - timedelta(hours=2))
    (reached / "trust.pem").write_text(AUTHORITY.pem + late)
    (found,) = look_at_node_files_blocking(str(config), time.time()).revocations
    assert -7_300 < found.ends_in_s < -7_100


def test_a_key_that_others_may_read_is_told(reached: Path) -> None:
    config = written(reached / "server.properties", secure_settings(reached, store_mode=0o644), 0o644)
    assert look_at_node_files_blocking(str(config), time.time()).readable == (str(reached / "node.pem"),)


def test_passwords_count_where_they_stand(reached: Path) -> None:
    secrets = written(reached / "secrets.properties", "tokens=x\n", 0o644)
    referring = (
        "config.providers=file",
        f"config.providers.file.class={FILE_PROVIDER}",
        f"delegation.token.secret.key=${{file:{secrets}:tokens}}",
    )
    config = written(reached / "server.properties", "\n".join(referring), 0o644)
    assert look_at_node_files_blocking(str(config), time.time()).readable == (str(secrets),)
    config = written(reached / "server.properties", "delegation.token.secret.key=x\n", 0o644)
    assert look_at_node_files_blocking(str(config), time.time()).readable == (str(config),)
    config.chmod(0o640)
    assert look_at_node_files_blocking(str(config), time.time()).readable == ()


def test_a_file_in_a_directory_that_others_may_not_enter_is_not_readable(reached: Path) -> None:
    inner = reached / "inner"
    inner.mkdir(mode=0o755)
    file = written(inner / "secret", "x", 0o644)
    assert is_readable_by_others_blocking(str(file))
    inner.chmod(0o750)
    assert not is_readable_by_others_blocking(str(file))
    assert not is_readable_by_others_blocking(str(inner / "missing"))


def test_a_metadata_log_that_others_may_read_is_told_and_the_file_that_begins_it(reached: Path) -> None:
    config = written(reached / "server.properties", f"log.dirs={reached}\n", 0o644)
    assert look_at_node_files_blocking(str(config), time.time()).readable_metadata == ()
    log = reached / "__cluster_metadata-0"
    log.mkdir(mode=0o755)
    segment = written(log / "00000000000000000000.log", "x", 0o644)
    beginning = written(reached / "bootstrap.checkpoint", "x", 0o644)
    assert look_at_node_files_blocking(str(config), time.time()).readable_metadata == (str(log), str(beginning))
    beginning.chmod(0o600)
    log.chmod(0o750)
    assert look_at_node_files_blocking(str(config), time.time()).readable_metadata == ()
    log.chmod(0o755)
    segment.chmod(0o640)
    assert look_at_node_files_blocking(str(config), time.time()).readable_metadata == ()


def test_settings_that_cannot_be_read_are_refused(reached: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read"):
        look_at_node_files_blocking(str(reached / "none"), time.time())
