"""The first records of a cluster."""

from esp.controller.bootstrap import FIRST_LEVELS, FirstMetadata, bootstrap_records
from esp.schemas.metadata_records import UserScramCredentialRecord
from tests.unit.controller.samples import Cluster


def test_a_new_cluster_works_at_the_levels_that_are_served():
    cluster = Cluster(min_insync_replicas=2)
    assert cluster.image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
    }
    assert cluster.image.broker_configs == {"": {"min.insync.replicas": "2"}}


def test_a_new_cluster_has_the_users_that_its_operator_has_given_it():
    user = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
    )
    cluster = Cluster()
    cluster.apply(bootstrap_records(1, first=FirstMetadata(credentials=(user,))))
    assert list(cluster.image.scram_credentials) == [("alice", 1)]


def test_features_that_this_release_does_not_have_do_not_begin():
    cluster = Cluster()
    cluster.apply(bootstrap_records(1, first=FirstMetadata({"metadata.version": 31, "group.version": 1})))
    assert cluster.image.features == FIRST_LEVELS


def test_a_level_of_0_has_no_record():
    cluster = Cluster()
    records = bootstrap_records(1, first=FirstMetadata({"transaction.version": 0}))
    assert not any(getattr(record, "name", None) == "transaction.version" for record in records)
    cluster.apply(records)
