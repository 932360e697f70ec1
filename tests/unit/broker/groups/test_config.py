from esp.broker.groups.config import coordinator_config
from esp.settings.broker import BrokerSettings


def test_the_node_s_settings_are_the_coordinators_in_their_units():
    config = coordinator_config(BrokerSettings(offsets_retention_minutes=2, group_max_size=7), lambda *_: None)
    assert (config.settings.offsets_retention_ms, config.settings.group_max_size) == (120_000, 7)
