from esp.broker.groups.config import coordinator_config
from esp.groups.settings import ShareGroupSettings
from esp.settings.broker import BrokerSettings


def test_the_node_s_settings_are_the_coordinators_in_their_units():
    config = coordinator_config(BrokerSettings(offsets_retention_minutes=2, group_max_size=7), lambda *_: None)
    assert (config.settings.offsets_retention_ms, config.settings.group_max_size) == (120_000, 7)


def test_share_groups_go_by_their_own_settings():
    settings = BrokerSettings(
        group_share_session_timeout_ms=1,
        group_share_heartbeat_interval_ms=2,
        group_share_max_size=3,
        group_share_assignment_interval_ms=4,
    )
    share = coordinator_config(settings, lambda *_: None).settings.share
    assert (share.session_timeout_ms, share.heartbeat_interval_ms, share.max_size, share.assignment_interval_ms) == (
        1,
        2,
        3,
        4,
    )
    assert coordinator_config(BrokerSettings(), lambda *_: None).settings.share == ShareGroupSettings()
