from esp.broker.groups.config import shard_config
from esp.groups.settings import GroupSettings
from esp.settings.broker import BrokerSettings


def test_defaults_of_the_node_are_those_of_the_coordinators():
    assert shard_config(BrokerSettings(), lambda *_: None).settings == GroupSettings()
