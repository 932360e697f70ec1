"""Levels of features: texts are those that a real Kafka 4.3.1 answered to the same requests."""

from dataclasses import replace

import pytest

from esp.controller.bootstrap import bootstrap_records
from esp.controller.feature_updates import FeatureAuthority, FeatureUpdate, UpgradeType, decide_update_features
from esp.controller.features import SUPPORTED_FEATURES, find_unsupported
from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, FeatureRange
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    TRANSACTION_VERSION,
)
from esp.model.ids import NodeId
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord, FeatureLevelRecord
from tests.unit.controller.samples import Cluster

UP, SAFE, UNSAFE = UpgradeType
ELR, TV = ELIGIBLE_LEADER_REPLICAS, TRANSACTION_VERSION
AUTHORITY = FeatureAuthority(node_id=NodeId(1), kraft_version=0, min_insync_replicas=2)


def _decide(image, *updates, authority=AUTHORITY, validate_only=False):
    wanted = [FeatureUpdate(*update) for update in updates]
    return decide_update_features(image, authority, wanted, validate_only=validate_only)


def _without_elr():
    cluster = Cluster(1, min_insync_replicas=3)
    cluster.apply([FeatureLevelRecord(name=ELR, feature_level=0)])
    return cluster


_REFUSALS = [
    ((METADATA_VERSION, 31, UP), "Local controller 1 only supports versions 30-30"),
    ((METADATA_VERSION, 29, SAFE), "Local controller 1 only supports versions 30-30"),
    ((METADATA_VERSION, -1, UP), "A feature version cannot be less than 0."),
    ((METADATA_VERSION, 30, 0), "The controller does not support the given upgrade type."),
    ((METADATA_VERSION, 30, 4), "The controller does not support the given upgrade type."),
    (("no.such", 1, UP), "Local controller 1 does not support this feature."),
    (("no.such", 0, UP), "Feature no.such not found."),
    (
        (ELR, 0, UP),
        "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
    ),
    ((ELR, 0, SAFE), "Can't downgrade the version of this feature."),
    ((ELR, 0, UNSAFE), "Can't downgrade the version of this feature."),
    ((KRAFT_VERSION, 2, UP), "Local controller 1 only supports versions 0-1"),
    ((KRAFT_VERSION, 1, UP), "Can't upgrade a quorum whose voters are set in controller.quorum.voters."),
]


@pytest.mark.parametrize(("update", "problem"), _REFUSALS)
def test_what_cannot_be_done_is_refused_with_all_else(update, problem):
    with pytest.raises(ApiError) as raised:
        _decide(Cluster(1).image, (METADATA_VERSION, 30, UP), update)
    assert raised.value.code is ErrorCode.invalid_update_version
    assert raised.value.message == (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {update[1]} for feature {update[0]}. {problem}"
    )


def test_levels_as_they_are_change_nothing():
    assert _decide(Cluster(1).image, (METADATA_VERSION, 30, UP), (ELR, 1, SAFE), (KRAFT_VERSION, 0, UP)).records == ()


def test_the_quorum_says_which_kraft_version_it_has():
    authority = replace(AUTHORITY, kraft_version=1)
    assert _decide(Cluster(1).image, (KRAFT_VERSION, 1, UP), authority=authority).records == ()
    with pytest.raises(ApiError, match="Can't downgrade the version of this feature"):
        _decide(Cluster(1).image, (KRAFT_VERSION, 0, UNSAFE), authority=authority)


def test_eligible_leader_replicas_are_switched_on():
    cluster = _without_elr()
    decision = _decide(cluster.image, (ELR, 1, UP))
    assert decision.records == (FeatureLevelRecord(name=ELR, feature_level=1),)
    assert _decide(cluster.image, (ELR, 1, UP), validate_only=True).records == ()
    with pytest.raises(ApiError, match="Can't downgrade to a newer version"):
        _decide(cluster.image, (ELR, 1, SAFE))


def test_with_them_the_least_number_of_replicas_in_sync_becomes_one_for_all():
    cluster = _without_elr()

    def setting(name, value):
        return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=name, name=MIN_INSYNC_REPLICAS, value=value)

    cluster.apply([setting(CLUSTER_DEFAULT, None), setting("1", "5")])
    records = _decide(cluster.image, (ELR, 1, UP)).records
    assert records[1:] == (setting("1", None), setting(CLUSTER_DEFAULT, "2"))


def test_the_last_update_of_a_feature_counts():
    cluster = _without_elr()
    assert _decide(cluster.image, (ELR, 1, UP), (ELR, 0, UP)).records == ()


def test_every_registered_broker_has_a_say():
    cluster = Cluster(1)
    old = replace(cluster.image.brokers[NodeId(1)], features={METADATA_VERSION: FeatureRange(7, 29)})
    image = replace(cluster.image, brokers={NodeId(1): old})
    with pytest.raises(ApiError, match="Broker 1 only supports versions 7-29"):
        _decide(image, (METADATA_VERSION, 30, UP))


def test_a_controller_of_an_older_release_raises_no_level_that_it_does_not_support():
    older = replace(AUTHORITY, supported={**SUPPORTED_FEATURES, ELR: FeatureRange(0, 0)})
    with pytest.raises(ApiError, match="Local controller 1 does not support this feature"):
        _decide(_without_elr().image, (ELR, 1, UP), authority=older)


def test_a_cluster_of_an_older_release_begins_at_the_levels_that_it_supports():
    older = {**SUPPORTED_FEATURES, ELR: FeatureRange(0, 0)}
    levels = {record.name for record in bootstrap_records(1, older) if isinstance(record, FeatureLevelRecord)}
    assert levels == {METADATA_VERSION, TV, GROUP_VERSION, SHARE_VERSION}
    assert not list(find_unsupported({METADATA_VERSION: 30}, older))
    assert list(find_unsupported({METADATA_VERSION: 30, ELR: 1}, older)) == [
        f"{ELR} is at level 1, and this release supports 0 to 0"
    ]


def test_level_of_transactions_goes_both_ways():
    cluster = Cluster(1)
    for level, kind in ((1, SAFE), (2, UP), (0, UNSAFE)):
        (record,) = _decide(cluster.image, (TV, level, kind)).records
        assert record == FeatureLevelRecord(name=TV, feature_level=level)
        cluster.apply((record,))
    cluster.apply(_decide(cluster.image, (TV, 2, UP)).records)
    with pytest.raises(ApiError, match="without setting the upgrade type"):
        _decide(cluster.image, (TV, 1, UP))
