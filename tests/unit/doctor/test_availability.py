"""Partitions, replicas and directories that do not do their work."""

from esp.doctor.snapshot import BrokerCondition, FailedDirectory
from esp.model.ids import NodeId
from tests.unit.doctor.snapshots import hits, moving, name_of, places, snapshot
from tests.unit.placement.clusters import partition

DOWN = {NodeId(3): BrokerCondition.FENCED}
WHOLE = partition("t-1", (1, 2), min_isr=2)

STOPPED = (
    "see the log of broker 2: repair or replace the disk of a log directory that failed, or keep a copy of the replica that was stopped, "
    "and restart the broker"
)


def test_partition_without_a_leader_is_found_with_those_who_could_lead_it():
    lost = partition("t-0", (2, 3), leader=None, isr=(3,))
    [hit] = hits("offline-partition", snapshot(3, [lost, WHOLE], conditions=DOWN))
    assert (str(hit.place), hit.remedy) == ("t-0", "start broker 3")
    assert hit.detail == "replicas 2, 3, last in sync 3, down 3"
    eligible = snapshot(3, [partition("t-0", (2, 3), leader=None, isr=())], conditions=DOWN, eligible={"t-0": (3,)})
    assert "last in sync 3" in hits("offline-partition", eligible)[0].detail


def test_partition_that_waits_though_all_brokers_are_there_has_lost_its_complete_copies():
    lost = partition("t-0", (2, 3), leader=None, isr=())
    [hit] = hits("offline-partition", snapshot(3, [lost, WHOLE]))
    assert hit.detail == "replicas 2, 3, last in sync none, down none"
    assert "no broker is known to have all records" in hit.remedy
    assert hit.remedy.endswith("`esp leader-election --election-type unclean --topic t --partition 0`")


def test_partition_below_the_minimum_is_found_and_one_at_it_is_warned_of():
    below = partition("t-0", (1, 2, 3), isr=(1,), min_isr=2)
    at = partition("t-2", (1, 2, 3), isr=(1, 2), min_isr=2)
    above = partition("t-3", (1, 2, 3), min_isr=2)
    offline = partition("t-4", (1, 3), leader=None, isr=(3,), min_isr=2)
    found = snapshot(3, [below, WHOLE, at, above, offline], conditions=DOWN)
    assert places("under-min-isr", found) == ["t-0"]
    assert places("at-min-isr", found) == ["t-2"], "one that has all its copies in sync is another rule's"
    assert hits("under-min-isr", found)[0].remedy == "start broker 3"


def test_copy_that_is_being_made_is_not_missing():
    growing = partition("t-0", (1, 2, 3), isr=(1, 2), min_isr=2)
    to_3 = {name_of("t-0"): moving(adding=(3,))}
    assert not places("at-min-isr", snapshot(3, [growing], moving=to_3))
    assert places("at-min-isr", snapshot(3, [growing])) == ["t-0"]
    below = growing._replace(isr=(NodeId(1),))
    assert hits("under-min-isr", snapshot(3, [below], moving=to_3))


def test_minimum_is_never_above_the_number_of_copies():
    assert not places("under-min-isr", snapshot(3, [partition("t-0", (1, 2), min_isr=3)]))


def test_replica_that_serves_and_is_behind_is_found():
    found = snapshot(3, [partition("t-0", (1, 2), isr=(1,)), WHOLE])
    [hit] = hits("out-of-sync-replica", found)
    assert hit.detail == "the copy on broker 2 is behind, in sync 1"
    new = snapshot(3, [partition("t-0", (1, 2), isr=(1,))], moving={name_of("t-0"): moving(adding=(2,))})
    assert not places("out-of-sync-replica", new), "it is being copied"
    away = snapshot(3, [partition("t-0", (1, 3), isr=(1,))], conditions=DOWN)
    assert not places("out-of-sync-replica", away), "its broker is down"
    failed = snapshot(3, [partition("t-0", (1, 2), isr=(1,))], offline={"t-0": (2,)})
    assert not places("out-of-sync-replica", failed), "its directory has failed"


def test_replica_is_offline_with_its_broker_or_its_directory():
    found = snapshot(
        3, [partition("t-0", (1, 3), isr=(1,)), WHOLE, partition("t-2", (1, 2))], conditions=DOWN, offline={"t-2": (2,)}
    )
    assert [(str(hit.place), hit.remedy) for hit in hits("offline-replica", found)] == [
        ("t-0", "start broker 3"),
        ("t-2", STOPPED),
    ]


def test_log_directory_that_failed_is_found():
    found = snapshot(2, [], failed_directories=(FailedDirectory(NodeId(2), "/data", "KAFKA_STORAGE_ERROR"),))
    [hit] = hits("offline-log-dir", found)
    assert (str(hit.place), hit.detail) == ("broker 2", "/data: KAFKA_STORAGE_ERROR")
    assert not hits("offline-log-dir", snapshot(2, []))


def test_partition_whose_brokers_are_all_up_and_have_all_lost_something_needs_a_decision():
    """BRK-11."""
    lost = partition("t-0", (1, 2), leader=None, isr=())
    [hit] = hits("offline-partition", snapshot(3, [lost, WHOLE]))
    assert hit.detail == "replicas 1, 2, last in sync none, down none"
    assert "put back the lost log directory" in hit.remedy
    assert "unclean" in hit.remedy


def test_replica_that_a_reassignment_brings_to_a_broker_that_is_down_is_no_offline_copy():
    growing = partition("t-0", (1, 2, 3), isr=(1, 2), min_isr=2)
    to_3 = {name_of("t-0"): moving(adding=(3,))}
    assert not hits("offline-replica", snapshot(3, [growing], conditions=DOWN, moving=to_3))
    assert hits("offline-replica", snapshot(3, [growing], conditions=DOWN))


def test_copy_on_a_replaced_disk_is_not_made_yet():
    found = snapshot(3, [partition("t-0", (1, 2), isr=(1,))], unmade={name_of("t-0"): frozenset({NodeId(2)})})
    [hit] = hits("out-of-sync-replica", found)
    assert hit.detail == "the copy on broker 2 is not made yet, in sync 1"
    assert hit.remedy.startswith("wait until broker 2 has copied it")


def test_broker_that_led_at_last_and_is_silent_leads_no_longer_where_nobody_elects_another():
    silent = {NodeId(3): BrokerCondition.SILENT}
    lost = partition("t-0", (3, 2), leader=3, isr=(3, 2))
    [hit] = hits("offline-partition", snapshot(3, [lost], conditions=silent, has_controller=False))
    assert hit.detail == "its last leader, broker 3, does not answer, and no controller elects another"
    assert hit.remedy == "start broker 3"
    assert not hits("offline-partition", snapshot(3, [lost], conditions=silent)), "a controller elects another one"
