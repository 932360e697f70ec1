import json

import pytest

from esp.cli import configs as configs_module
from esp.cli.app import run_tools
from esp.cli.kafka.answers import ConfigEntry, ConfigSynonym, RefusedError
from esp.cli.kafka.configs import ResourceType
from esp.model.errors import ErrorCode


def entry(name, value, source, *others):
    synonyms = (ConfigSynonym(source, name, value), *others)
    return ConfigEntry(name, value, source, value is None, False, synonyms)


class FakeAdmin:
    """Stands for a broker 1 and topics a and b, of which a has a setting of its own."""

    def __init__(self, servers):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def names(self, resource):
        return {ResourceType.BROKER: ["1"], ResourceType.TOPIC: ["a", "b"], ResourceType.GROUP: []}[resource]

    def settings(self, resource, names):
        default = ConfigSynonym("DEFAULT_CONFIG", "log.retention.ms", None)
        own = {
            "a": [entry("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG", default)],
            "1": [entry("secret", None, "DYNAMIC_BROKER_CONFIG")],
            "": [entry("threads", "2", "DYNAMIC_DEFAULT_BROKER_CONFIG")],
        }
        return {name: [entry("flush.ms", "9", "DEFAULT_CONFIG"), *own.get(name, ())] for name in names}

    def alter(self, resource, name, added, deleted):
        if "nope" in added:
            raise RefusedError(ErrorCode.invalid_config, "Unknown topic config name: nope")
        FakeAdmin.changes.append((resource, name, added, deleted))


@pytest.fixture
def changes(monkeypatch):
    monkeypatch.setattr(FakeAdmin, "changes", [], raising=False)
    monkeypatch.setattr(configs_module, "ConfigsAdmin", FakeAdmin)
    return FakeAdmin.changes


def run(capsys, *arguments, status=0):
    assert run_tools(("configs", *arguments)) == status
    told = capsys.readouterr()
    return told.err if status else told.out


def test_settings_of_its_own_are_shown_with_their_synonyms(changes, capsys):
    line = (
        "  retention.ms=5 sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, DEFAULT_CONFIG:log.retention.ms=null}\n"
    )
    assert run(capsys, "--describe", "--entity-type", "topics", "--entity-name", "a") == (
        "Dynamic configs for topic a are:\n" + line
    )
    assert run(capsys, "--describe", "--topic", "a", "--all") == (
        "All configs for topic a are:\n  flush.ms=9 sensitive=false synonyms={DEFAULT_CONFIG:flush.ms=9}\n" + line
    )
    [told] = json.loads(run(capsys, "--describe", "--topic", "a", "--json"))
    assert (told["type"], told["name"]) == ("topic", "a")
    assert told["configs"][0]["synonyms"][1] == {"source": "DEFAULT_CONFIG", "name": "log.retention.ms", "value": None}


def test_without_a_name_all_are_described_and_the_default_of_brokers_last(changes, capsys):
    assert run(capsys, "--describe", "--entity-type", "brokers") == (
        "Dynamic configs for broker 1 are:\n"
        "  secret=null sensitive=true synonyms={DYNAMIC_BROKER_CONFIG:secret=null}\n"
        "Default configs for brokers in the cluster are:\n"
        "  threads=2 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:threads=2}\n"
    )
    assert run(capsys, "--describe", "--broker-defaults").startswith("Default configs for brokers")
    assert run(capsys, "--describe", "--entity-type", "groups") == ""


def test_what_is_not_there_is_not_described(changes, capsys):
    assert "The topic 'c' doesn't exist" in run(capsys, "--describe", "--topic", "c", status=1)


def test_settings_are_made_and_taken_back_together(changes, capsys, tmp_path):
    file = tmp_path / "settings.properties"
    file.write_text("segment.ms=7\nflush.ms=1\n")
    told = run(
        capsys,
        *("--alter", "--entity-type", "topics", "--entity-name", "a", "--add-config-file", str(file)),
        *("--add-config", "cleanup.policy=[compact,delete],flush.ms=2", "--delete-config", "retention.ms"),
    )
    assert told == "Completed updating config for topic a.\n"
    added = {"segment.ms": "7", "flush.ms": "2", "cleanup.policy": "compact,delete"}
    assert changes == [(ResourceType.TOPIC, "a", added, ["retention.ms"])]


def test_brokers_are_changed_one_by_one_or_all_together(changes, capsys):
    assert run(capsys, "--alter", "--broker", "1", "--add-config", "a=1") == "Completed updating config for broker 1.\n"
    told = run(capsys, "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "a=1")
    assert told == "Completed updating default config for brokers in the cluster.\n"
    assert [name for _, name, *_ in changes] == ["1", ""]


def test_a_refused_change_is_told(changes, capsys):
    assert "Unknown topic config name: nope" in run(
        capsys, "--alter", "--topic", "a", "--add-config", "nope=1", status=1
    )
