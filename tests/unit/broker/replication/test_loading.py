"""What becomes of each directory that a node finds when it starts: opened, put aside, gone on with, or removed."""

import asyncio
import errno
import uuid
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from esp.broker.live_settings import LiveSettings
from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.loading import ReplicaLoading
from esp.broker.tasks import Tasks
from esp.controller.image import ClusterImage, TopicImage, TrashedTopic
from esp.model.errors import OperatorError
from esp.model.ids import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    NO_NODE,
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    TopicId,
    TopicPartition,
    uuid_to_base64,
)
from esp.model.partition import PartitionState
from esp.settings.broker import BrokerSettings
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.machine.network import SimulatedNetwork
from esp.storage.log_directory import LogDirectory, find_last_trashed
from esp.storage.meta_properties import MetaProperties
from esp.storage.trashed_replicas import TRASH_FILE, UNKNOWN_EPOCH
from tests.unit.storage.helpers import append, new_disk

NODE = NodeId(1)
OTHER = NodeId(2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = TopicId(uuid.UUID(int=7))
ANOTHER_ID = TopicId(uuid.UUID(int=8))
IDS = {"/a": DirectoryId(uuid.UUID(int=100)), "/b": DirectoryId(uuid.UUID(int=101))}


class Node:
    """A node with two data directories, and what the metadata says of topic ``t``."""

    def __init__(self):
        self.disk = new_disk()
        self.directories = {}
        self.image = topic_image([state()])
        self.open()

    def open(self):
        self.disk.crash()
        for path, identity in IDS.items():
            directory = self.directories[path] = LogDirectory.open_blocking(self.disk, path)
            if directory.meta is None:
                directory.format_blocking(MetaProperties("cluster", NODE, identity))

    def create(self, path, partition=T0, topic_id=TOPIC_ID, *, batches=0, epoch=0, start_offset=0):
        log = self.directories[path].create_log_blocking(
            partition, topic_id, TopicSettings(), start_offset=start_offset
        )
        fill(log, batches, epoch)
        return log

    def create_copy(self, path, partition=T0, topic_id=TOPIC_ID, *, batches=0, epoch=0):
        log = self.directories[path].create_future_blocking(partition, topic_id, TopicSettings())
        fill(log, batches, epoch)
        return log

    def load(self):
        """Start, after the process was killed."""
        self.open()
        return self.load_open()

    def load_without(self, path):
        """Start, after the process was killed, while a directory is offline."""
        self.open()
        self.directories.pop(path).unlock()
        return self.load_open()

    def load_open(self):
        settings = LiveSettings(NODE, BrokerSettings())
        loading = ReplicaLoading(NODE, tuple(self.directories.values()), self.image, settings, 1000)
        for _ in loading.steps_blocking():
            pass
        return loading

    def names(self, path):
        """The directories of replicas, by the word behind their name."""
        return sorted(
            name.rpartition("-")[2] if "." in name else name
            for name in self.disk.listdir(path)
            if name.startswith(("t-", "t.", "__"))
        )


def fill(log, batches, epoch):
    log.begin_epoch(epoch)
    for _ in range(batches):
        append(log, epoch=epoch)


def state(*, replicas=(NODE, OTHER), directory=None, number=0):
    directories = () if directory is None else (IDS[directory],) * len(replicas)
    return PartitionState(TOPIC_ID, number, replicas, replicas, NODE, LeaderEpoch(0), 0, directories)


def topic_image(states, **configs):
    texts = {name.replace("_", "."): text for name, text in configs.items()}
    topic = TopicImage("t", TOPIC_ID, tuple(states), texts)
    return ClusterImage(topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})


def test_a_replica_is_opened_with_its_records_and_its_topic_s_settings():
    node = Node()
    node.create("/b", batches=3)
    node.image = topic_image([state()], retention_ms="1234")
    loading = node.load()
    loaded = loading.replicas[T0]
    assert (loaded.directory.path, loaded.log.log_end_offset, loaded.topic.name) == ("/b", 3, "t")
    assert loaded.log.settings.retention_ms == 1234
    assert loading.copies == {}


def test_the_metadata_log_is_left_alone():
    node = Node()
    node.create("/a", METADATA_PARTITION)
    assert node.load().replicas == {}
    assert METADATA_PARTITION in node.directories["/a"].replicas
    assert METADATA_PARTITION not in node.directories["/a"].logs


@pytest.mark.parametrize(
    "image",
    [
        ClusterImage(),
        topic_image([state(replicas=(OTHER,))]),
        topic_image([]),
    ],
    ids=["no such topic", "replica of others", "no such partition"],
)
def test_a_replica_that_the_metadata_does_not_give_this_node_is_put_aside(image):
    node = Node()
    node.create("/a", batches=1)
    node.image = image
    assert node.load().replicas == {}
    assert node.names("/a") == ["stray"]


def test_a_replica_of_a_topic_that_had_the_same_name_is_not_adopted():
    """REASSIGN-4."""
    node = Node()
    node.create("/a", topic_id=ANOTHER_ID, batches=1)
    assert node.load().replicas == {}
    assert node.names("/a") == ["stray"]


def test_a_replica_whose_creation_a_power_loss_cut_off_begins_empty():
    node = Node()
    node.create("/a", batches=1)
    node.disk.remove("/a/t-0/partition.metadata")
    node.disk.remove(f"/a/t-0/{0:020d}.log")
    node.disk.write_file("/a/t-0/leftover", b"")
    loaded = node.load().replicas[T0]
    assert (loaded.log.topic_id, loaded.log.log_end_offset) == (TOPIC_ID, 0)


def test_a_log_that_cannot_be_opened_is_the_operator_s():
    node = Node()
    node.create("/a", batches=1)
    node.disk.fail("read", "/a/t-0/*.log", times=100)
    with pytest.raises(OperatorError, match=r"The log of t-0 in /a cannot be opened: .*Input"):
        node.load()


@pytest.mark.parametrize("newer", ["/a", "/b"])
@pytest.mark.parametrize(
    ("old", "new"),
    [({"batches": 9, "epoch": 1}, {"batches": 2, "epoch": 2}), ({"batches": 2}, {"batches": 3})],
    ids=["later epoch", "longer log"],
)
def test_of_two_directories_of_a_replica_the_one_that_was_written_last_counts(newer, old, new):
    """The process was killed while a move let both change places."""
    node = Node()
    older = {"/a": "/b", "/b": "/a"}[newer]
    node.create(older, **old)
    node.create(newer, **new)
    node.image = topic_image([state(directory=older)])
    loaded = node.load().replicas[T0]
    assert (loaded.directory.path, loaded.log.log_end_offset) == (newer, new["batches"])
    assert node.names(older) == ["delete"]


@pytest.mark.parametrize("assigned", ["/a", "/b"])
def test_of_two_equal_directories_the_one_that_the_metadata_names_counts(assigned):
    node = Node()
    node.create("/a", batches=2)
    node.create("/b", batches=2)
    node.image = topic_image([state(directory=assigned)])
    assert node.load().replicas[T0].directory.path == assigned


@pytest.mark.parametrize("emptied", ["/a", "/b"])
@pytest.mark.parametrize(
    ("length", "is_kept"), [(2, False), (5, False), (6, True)], ids=["ends before", "ends there", "goes on"]
)
def test_offsets_do_not_go_back_to_a_copy_that_ends_before_an_emptied_log(emptied, length, is_kept):
    """A directory failed and came back after its replica was made again elsewhere, at the start of a log whose records were deleted."""
    node = Node()
    left = {"/a": "/b", "/b": "/a"}[emptied]
    node.create(left, batches=length, epoch=1)
    node.create(emptied, start_offset=5)
    node.image = topic_image([state(directory=emptied)])
    loaded = node.load().replicas[T0]
    assert (loaded.directory.path, loaded.log.log_end_offset) == ((left, length) if is_kept else (emptied, 5))


def test_a_move_goes_on_with_what_it_has_copied():
    node = Node()
    node.create("/a", batches=5)
    node.create_copy("/b", batches=2)
    loading = node.load()
    assert (loading.replicas[T0].directory.path, loading.replicas[T0].log.log_end_offset) == ("/a", 5)
    assert (loading.copies[T0].directory.path, loading.copies[T0].log.log_end_offset) == ("/b", 2)
    assert node.directories["/b"].futures == {T0: loading.copies[T0].log}


def test_a_copy_beside_the_replica_itself_is_removed():
    node = Node()
    node.create("/a", batches=5)
    node.disk.rename(node.create_copy("/b", batches=2).path, "/a/t-0.0123456789abcdef0123456789abcdef-future")
    loading = node.load()
    assert loading.copies == {}
    assert node.names("/a") == ["delete", "t-0"]


@pytest.mark.parametrize(
    "image",
    [ClusterImage(), topic_image([state(replicas=(OTHER,))]), topic_image([])],
    ids=["no such topic", "replica of others", "no such partition"],
)
def test_a_copy_of_what_is_not_this_node_s_any_more_is_removed(image):
    node = Node()
    node.create_copy("/b", batches=2)
    node.image = image
    loading = node.load()
    assert (loading.copies, loading.replicas) == ({}, {})
    assert node.names("/b") == ["delete"]


def test_a_copy_whose_origin_is_gone_takes_its_place_if_the_controller_was_told_so():
    """KIP-858."""
    node = Node()
    node.create_copy("/b", batches=4)
    node.image = topic_image([state(directory="/b")])
    loaded = node.load().replicas[T0]
    assert (loaded.directory.path, loaded.log.log_end_offset) == ("/b", 4)
    assert node.names("/b") == ["t-0"]


@pytest.mark.parametrize("directory", [None, "/a"])
def test_a_copy_whose_origin_is_gone_is_removed_if_nobody_was_told(directory):
    node = Node()
    node.create_copy("/b", batches=4)
    node.image = topic_image([state(directory=directory)])
    loading = node.load()
    assert (loading.replicas, loading.copies) == ({}, {})
    assert node.names("/b") == ["delete"]


MARKED_AT = 50
"""The offset of the metadata that has the topic in the trash."""


def on_its_way_into_the_trash(node, path="/a", *, batches=3):
    """The process is killed when the log is marked, and its directory not renamed yet."""
    log = node.create(path, batches=batches)
    node.disk.fail("rename", f"{path}/t-0", times=1)
    with pytest.raises(OSError, match="Input/output error"):
        node.directories[path].trash_logs_blocking([log], 1000, MARKED_AT, lambda _log: 0)
    assert node.names(path) == ["t-0"]
    assert node.disk.exists(f"{path}/t-0/{TRASH_FILE}")


def trash_image(states, offset=MARKED_AT):
    trashed = TrashedTopic(TopicImage("t", TOPIC_ID, tuple(states), {}), 0, 10**6)
    return ClusterImage(offset=offset, trashed_topics={TOPIC_ID: trashed})


def is_marked(node, path="/a"):
    return any(node.disk.exists(f"{path}/{name}/{TRASH_FILE}") for name in node.disk.listdir(path) if name[0] == "t")


def another_topic_image(offset):
    """A topic of the same name has a replica here."""
    topic = TopicImage("t", ANOTHER_ID, (state(),), {})
    return ClusterImage(offset=offset, topics_by_name={"t": topic}, topics_by_id={ANOTHER_ID: topic})


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize(
    "image", [ClusterImage(offset=MARKED_AT + 1), another_topic_image(MARKED_AT + 1)], ids=["no topic", "made again"]
)
def test_what_was_on_its_way_into_the_trash_and_is_purged_is_removed(image, power):
    """TRASH-5: at this start, not at the next one."""
    node = Node()
    on_its_way_into_the_trash(node)
    node.image = image
    if power:
        node.disk.power_loss()
    assert node.load().replicas == {}
    assert node.names("/a") == ["delete"]
    node.directories["/a"].purge(0)
    assert node.names("/a") == []


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("batches", [0, 3])
def test_what_was_on_its_way_into_the_trash_is_in_it_if_its_topic_is(batches, power):
    """TRASH-2."""
    node = Node()
    on_its_way_into_the_trash(node, batches=batches)
    node.image = trash_image([state()])
    if power:
        node.disk.power_loss()
    assert node.load().replicas == {}
    assert node.names("/a") == ["stray"]
    [replica] = node.directories["/a"].trashed.by_key.values()
    assert (replica.key, replica.offsets.recovery_point) == ((TOPIC_ID, 0), 0)
    assert not replica.is_complete, "the process did not stop in order"


def test_a_log_without_records_that_lost_its_topic_with_the_power_is_known_by_its_mark():
    node = Node()
    on_its_way_into_the_trash(node, batches=0)
    node.disk.remove("/a/t-0/partition.metadata")
    node.image = ClusterImage(offset=MARKED_AT)
    node.load()
    assert node.names("/a") == ["delete"]


@pytest.mark.parametrize("is_purged", [False, True])
def test_metadata_that_is_older_than_the_mark_leaves_it_to_newer_ones(is_purged):
    node = Node()
    on_its_way_into_the_trash(node)
    node.image = ClusterImage(offset=MARKED_AT - 1)
    node.load()
    assert node.names("/a") == ["stray"]
    assert [replica.metadata_offset for replica in node.directories["/a"].trashed.by_key.values()] == [MARKED_AT]
    node.image = ClusterImage(offset=MARKED_AT) if is_purged else trash_image([state()])
    node.load()
    assert node.names("/a") == (["delete"] if is_purged else ["stray"])


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_what_was_on_its_way_into_the_trash_and_is_restored_is_an_ordinary_replica_for_good(power):
    """TRASH-3. It is kept as a stray when it is moved away later (REASSIGN-4)."""
    node = Node()
    on_its_way_into_the_trash(node)
    node.image = replace(topic_image([state()]), offset=MARKED_AT + 1)
    log = node.load().replicas[T0].log
    assert log.log_end_offset == 3
    append(log)
    log.flush_blocking()
    if power:
        node.disk.power_loss()
    assert not is_marked(node)
    node.image = replace(topic_image([state(replicas=(OTHER,))]), offset=MARKED_AT + 2)
    node.load()
    node.load()
    assert node.names("/a") == ["stray"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "image",
    [
        replace(topic_image([state(replicas=(OTHER,))]), offset=MARKED_AT + 1),
        trash_image([state(replicas=(OTHER,))], MARKED_AT + 1),
        replace(topic_image([]), offset=MARKED_AT + 1),
    ],
    ids=["restored and moved away", "moved away and deleted again", "no such partition"],
)
def test_what_was_on_its_way_into_the_trash_and_is_moved_away_is_kept_as_a_stray(image, seed):
    """REASSIGN-4."""
    node = Node()
    on_its_way_into_the_trash(node)
    node.image = image
    node.load()
    assert node.names("/a") == ["stray"]
    node.disk.power_loss(Random(seed))
    assert not is_marked(node), "a later start would remove it"
    node.image = ClusterImage(offset=MARKED_AT + 9)
    node.load()
    assert node.names("/a") == ["stray"]


def test_a_stray_without_a_mark_is_not_purged():
    node = Node()
    node.create("/a", batches=3)
    node.image = ClusterImage(offset=MARKED_AT)
    node.load()
    assert node.names("/a") == ["stray"]


@pytest.mark.parametrize("changes", range(8))
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_purge_that_ends_midway_goes_on_at_the_next_start(changes, power):
    node = Node()
    on_its_way_into_the_trash(node)
    node.image = ClusterImage(offset=MARKED_AT)
    node.open()
    directories = node.directories
    node.disk.kill_after(changes)
    with suppress(ProcessKilledError):
        node.load_open()
        directories["/a"].purge(0)
    if power:
        node.disk.power_loss()
    node.load()
    node.directories["/a"].purge(0)
    assert node.names("/a") == []


def put_in_trash(node, path, *, batches, epoch=0, at, marked_epoch=UNKNOWN_EPOCH):
    """The topic goes into the trash while this directory has the replica."""
    log = node.create(path, batches=batches, epoch=epoch)
    node.directories[path].trash_logs_blocking([log], 1000, at, lambda _log: marked_epoch)
    return log


def restored(*, directory=None):
    """The topic was restored, and has no leader yet."""
    lost = replace(
        state(directory=directory),
        isr=(),
        elr=(NODE, OTHER),
        leader=NO_NODE,
        leader_epoch=LeaderEpoch(9),
        restored_epoch=9,
    )
    return replace(topic_image([lost]), offset=MARKED_AT + 99)


@pytest.mark.parametrize("newer", ["/a", "/b"])
@pytest.mark.parametrize("is_restored", [False, True])
def test_of_two_logs_of_a_partition_in_the_trash_the_one_that_came_last_is_the_one(newer, is_restored):
    """TRASH-3. The first directory was away while the topic was restored, written and deleted again: its log lacks what came in between."""
    node = Node()
    older = {"/a": "/b", "/b": "/a"}[newer]
    put_in_trash(node, older, batches=2, at=MARKED_AT)
    put_in_trash(node, newer, batches=5, epoch=1, at=MARKED_AT + 9)
    node.image = restored() if is_restored else trash_image([state()], MARKED_AT + 9)
    loading = node.load()
    assert node.names(older) == ["delete"]
    if is_restored:
        assert (loading.replicas[T0].directory.path, loading.replicas[T0].log.log_end_offset) == (newer, 5)
        assert loading.gone == []
    else:
        assert list(node.directories[newer].trashed.by_key) == [(TOPIC_ID, 0)]
        assert list(node.directories[older].trashed.by_key) == []


def test_a_restored_log_is_given_back_on_a_full_disk():
    """REC-9: no start fails for want of room."""
    node = Node()
    put_in_trash(node, "/a", batches=5, at=MARKED_AT)
    node.image = restored()
    for operation in ("write", "create"):
        node.disk.fail(operation, "/a/t-0*", error=errno.ENOSPC, times=10**6)
    assert node.load().replicas[T0].log.log_end_offset == 5


@pytest.mark.parametrize("operation", ["write", "create", "rename", "sync"])
def test_an_error_of_the_device_while_replicas_are_put_in_order_names_the_directory_and_the_remedy(operation):
    """And the next start finds all of them."""
    node = Node()
    put_in_trash(node, "/a", batches=5, at=MARKED_AT)
    node.create("/a", T1, ANOTHER_ID)
    node.image = restored()
    node.open()
    node.disk.fail(operation, "/a*")
    with pytest.raises(OperatorError, match=r"The replicas in /a cannot be put in order: .*\nMake room on the disk"):
        node.load_open()
    loading = node.load()
    assert loading.replicas[T0].log.log_end_offset == 5
    assert loading.gone == []


@pytest.mark.parametrize("current", ["/a", "/b"])
@pytest.mark.parametrize("is_current_renamed", [False, True])
def test_of_a_log_in_the_trash_and_one_that_was_not_put_in_it_the_one_in_the_known_directory_is_the_one(
    current, is_current_renamed
):
    """One directory failed, and the replica was begun anew in the other."""
    node = Node()
    outdated = {"/a": "/b", "/b": "/a"}[current]
    if is_current_renamed:
        node.create(outdated, batches=2)
        put_in_trash(node, current, batches=5, epoch=1, at=MARKED_AT)
    else:
        put_in_trash(node, outdated, batches=2, at=MARKED_AT)
        node.create(current, batches=5, epoch=1)
    node.image = trash_image([state(directory=current)], MARKED_AT + 9)
    for _ in range(2):
        node.load()
        assert node.names(outdated) == ["stray"]
        directory, replica = find_last_trashed(node.directories.values(), TOPIC_ID, 0)
        assert (directory.path, replica.is_complete) == (current, is_current_renamed)
    node.image = restored()
    loading = node.load()
    assert list(loading.replicas) == ([T0] if is_current_renamed else []), "one that may lack its end is reported first"


def test_the_mark_of_a_directory_that_was_away_while_the_topic_was_restored_is_gone_when_it_is_back():
    """The replica was begun anew in another directory; the one that has all records counts."""
    node = Node()
    on_its_way_into_the_trash(node)
    node.create("/b", batches=5, epoch=1)
    node.image = replace(topic_image([state(directory="/b")]), offset=MARKED_AT + 1)
    loaded = node.load().replicas[T0]
    assert (loaded.directory.path, loaded.log.log_end_offset) == ("/b", 5)
    assert node.names("/a") == ["delete"]


@pytest.mark.parametrize("kept", ["/a", "/b"])
@pytest.mark.parametrize("marked_epoch", [8, UNKNOWN_EPOCH])
@pytest.mark.parametrize(
    ("batches", "epoch", "is_trashed_newer"),
    [(2, 0, True), (9, 0, True), (2, 1, True), (1, 10, False), (6, 1, False)],
    ids=["failed long ago", "failed with an end that nobody has", "failed just before", "begun anew", "longer"],
)
def test_a_restored_log_and_one_that_has_its_name_are_compared(kept, marked_epoch, batches, epoch, is_trashed_newer):
    """TRASH-3. One directory failed while the topic lived, and is back; or it has what was begun anew when the topic was restored."""
    node = Node()
    named = {"/a": "/b", "/b": "/a"}[kept]
    node.create(named, batches=batches, epoch=epoch)
    put_in_trash(node, kept, batches=5, epoch=1, at=MARKED_AT, marked_epoch=marked_epoch)
    node.image = restored()
    loading = node.load()
    loaded = loading.replicas[T0]
    expected = (kept, 5) if is_trashed_newer else (named, batches)
    assert (loaded.directory.path, loaded.log.log_end_offset) == expected
    assert node.names({"/a": "/b", "/b": "/a"}[loaded.directory.path]) == ["delete"]
    assert loading.gone == []


@pytest.mark.parametrize("kept", ["/a", "/b"])
@pytest.mark.parametrize("is_told", [False, True])
def test_a_log_beside_one_in_the_trash_that_may_lack_its_end_is_not_known_to_be_complete(kept, is_told):
    """TRASH-3. The controller hears of a log that was begun anew."""
    node = Node()
    named = {"/a": "/b", "/b": "/a"}[kept]
    node.create(named, batches=2)
    node.create(kept, batches=5, epoch=1)
    directory = node.directories[kept]
    directory.logs.pop(T0)
    directory.trash_unloaded_blocking(T0, MARKED_AT, 8, is_last=True)
    node.image = restored(directory=named if is_told else None)
    loading = node.load()
    assert loading.replicas[T0].directory.path == named
    assert node.names(kept) == (["delete"] if is_told else ["stray"])
    assert len(loading.gone) == (0 if is_told else 1)


def test_a_log_of_an_earlier_deletion_does_not_stand_for_the_last_one_in_a_directory_that_is_offline():
    """TRASH-3. The directory was away while the topic was restored, written and deleted again."""
    node = Node()
    put_in_trash(node, "/a", batches=2, at=MARKED_AT, marked_epoch=3)
    put_in_trash(node, "/b", batches=5, epoch=4, at=MARKED_AT + 9, marked_epoch=8)
    node.image = restored()
    loading = node.load_without("/b")
    assert loading.replicas == {}
    assert [each.reason for each in loading.gone] == [f"{'/a/' + stray(node, '/a')} may lack the end of what it had"]
    assert node.names("/a") == ["stray"]
    loading = node.load()
    assert (loading.replicas[T0].directory.path, loading.replicas[T0].log.log_end_offset) == ("/b", 5)
    assert (node.names("/a"), loading.gone) == (["delete"], [])


@pytest.mark.parametrize("assigned", ["/a", "/b", None])
def test_a_log_that_was_not_put_in_the_trash_is_not_complete_if_the_last_one_may_be_offline(assigned):
    """TRASH-3. It was left by a clean stop, before its directory was away."""
    node = Node()
    node.create("/a", batches=2)
    node.directories["/a"].close_blocking(BrokerEpoch(5))
    node.image = trash_image([state(directory=assigned)])
    node.load_without("/b")
    [replica] = node.directories["/a"].trashed.by_key.values()
    assert (replica.is_complete, replica.leader_epoch) == (assigned != "/b", 0)


@pytest.mark.parametrize("assigned", ["/a", "/b", None])
def test_of_two_logs_that_were_not_put_in_the_trash_the_one_in_the_known_directory_is_the_one(assigned):
    node = Node()
    for path in IDS:
        node.create(path, batches=2)
        node.directories[path].close_blocking(BrokerEpoch(5))
    node.image = trash_image([state(directory=assigned)])
    node.load()
    found = [(path, one.is_complete) for path in IDS for one in node.directories[path].trashed.by_key.values()]
    assert found == ([("/a", False)] if assigned is None else [(assigned, True)])
    assert (node.names("/a"), node.names("/b")) == (["stray"], ["stray"])


def test_a_log_that_was_not_in_the_process_that_put_the_topic_in_the_trash_is_a_stray():
    """Also if the controller had not heard yet in which directory the replica was begun anew."""
    node = Node()
    node.create("/a", batches=2)
    put_in_trash(node, "/b", batches=5, at=MARKED_AT, marked_epoch=0)
    node.image = trash_image([state(directory="/a")])
    node.load()
    assert [list(directory.trashed.by_key) for directory in node.directories.values()] == [[], [(TOPIC_ID, 0)]]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_restored_and_was_moved_away_is_a_stray(seed):
    """REASSIGN-4. So is a stray that has kept the mark of an earlier release."""
    node = Node()
    put_in_trash(node, "/a", batches=2, at=MARKED_AT)
    node.image = replace(topic_image([state(replicas=(OTHER,))]), offset=MARKED_AT + 9)
    node.load()
    node.disk.power_loss(Random(seed))
    assert not is_marked(node)
    node.image = ClusterImage(offset=MARKED_AT + 20)
    node.load()
    assert node.names("/a") == ["stray"]


def test_a_mark_of_an_earlier_release_has_no_epoch():
    node = Node()
    put_in_trash(node, "/a", batches=2, at=MARKED_AT, marked_epoch=3)
    path = f"/a/{stray(node, '/a')}/{TRASH_FILE}"
    node.disk.replace_file_blocking(path, node.disk.read_file(path).replace(b"leader_epoch: 3\n", b""))
    node.open()
    [replica] = node.directories["/a"].trashed.by_key.values()
    assert replica.leader_epoch == UNKNOWN_EPOCH


def stray(node, path):
    [name] = [name for name in node.disk.listdir(path) if name.endswith("-stray")]
    return name


def test_each_partition_is_looked_at_for_itself():
    node = Node()
    node.create("/a", T0, batches=1)
    node.create("/b", T1, batches=2)
    node.image = topic_image([state(), replace(state(number=1), replicas=(OTHER,))])
    assert list(node.load().replicas) == [T0]
    assert node.names("/b") == ["stray"]


@pytest.mark.parametrize("seed", range(10))
def test_the_metadata_log_is_cut_between_two_turns_of_the_loading_and_never_within_one(seed):
    """Both write the checkpoints of the directory; one at a time, as they go by the names of its files."""
    loop = SimulatedLoop()

    async def main():
        disk = simulated_disk(loop, Random(seed))
        process = loop.new_process("node")
        env = simulated_env(loop, Random(seed), process, disk, SimulatedNetwork(loop, Random(seed)))
        names = [TopicPartition("t", number) for number in range(8)]
        directory = LogDirectory.open_blocking(disk, "/a")
        for name in names:
            directory.create_log_blocking(name, TOPIC_ID, TopicSettings())
        directory.write_checkpoints_blocking()
        disk.crash()
        for name in names:  # what a power loss took before the first flush
            disk.remove(f"/a/{name.topic}-{name.partition}/partition.metadata")
        directory = LogDirectory.open_blocking(disk, "/a")
        directory.format_blocking(MetaProperties("cluster", NODE, IDS["/a"]))
        directory.create_log_blocking(METADATA_PARTITION, TopicId(METADATA_TOPIC_ID), TopicSettings())
        replicas = ReplicaHost(
            env,
            NODE,
            BrokerSettings(),
            [directory],
            asyncio.Lock(),
            Tasks(env.host),
            on_leading=lambda _hosted: None,
            on_directory_failed=lambda: pytest.fail("no directory fails here"),
            on_final_ends=lambda _ends: pytest.fail("no topic is deleted here"),
        )
        loading = asyncio.create_task(process.run(replicas.load(topic_image([state(), *[state()] * 7]))))
        cuts = 0
        while not loading.done():
            async with replicas.directories_lock:
                directory.write_checkpoints_blocking()
                cuts += 1
            await asyncio.sleep(0.0003)
        await loading
        assert cuts > 1
        assert all(replicas.find("t", number) is not None for number in range(8))

    loop.run(main())


def eligible(directory=None):
    """What the metadata says of the replica when this node has registered and was eligible."""
    return topic_image([replace(state(directory=directory), isr=(), elr=(NODE, OTHER), leader=NO_NODE)])


def gone(node):
    return [(str(one.name), one.reason) for one in node.load().gone]


def test_a_log_that_is_there_is_not_gone():
    node = Node()
    node.create("/a", batches=1)
    node.image = eligible("/a")
    assert gone(node) == []
    node.disk.rename("/a/t-0", "/b/t-0")  # an operator made room; both directories are there
    assert gone(node) == []


def test_a_replica_without_a_log_is_gone_if_it_could_make_this_node_a_leader():
    """BRK-11."""
    node = Node()
    node.image = eligible("/a")
    told = uuid_to_base64(IDS["/a"])
    assert gone(node) == [("t-0", f"none of the log directories has it (it was in the directory {told})")]
    node.image = topic_image([replace(state(), isr=(OTHER,), leader=OTHER)])
    assert gone(node) == []
    node.image = topic_image([replace(state(), isr=(), last_known_elr=(NODE,), leader=NO_NODE)])
    assert gone(node) == [("t-0", "none of the log directories has it")]


def test_a_log_without_a_segment_is_gone():
    node = Node()
    node.create("/a", batches=1)
    node.disk.remove(f"/a/t-0/{0:020d}.log")
    node.image = eligible()
    assert gone(node) == [("t-0", "/a/t-0 has no segment")]


def test_a_replica_of_which_only_the_leftovers_of_a_creation_stand_there_is_gone():
    node = Node()
    node.create("/a", batches=1)
    node.disk.remove("/a/t-0/partition.metadata")
    node.disk.remove(f"/a/t-0/{0:020d}.log")
    node.disk.write_file("/a/t-0/leftover", b"")
    node.image = eligible()
    assert gone(node) == [("t-0", "/a/t-0 has no segment")]


def test_an_older_log_does_not_stand_for_the_one_in_a_directory_that_is_lost():
    """It was moved away from there once."""
    node = Node()
    node.create("/a", batches=1)
    lost = DirectoryId(uuid.UUID(int=102))
    node.image = topic_image([replace(state(), isr=(), elr=(NODE,), leader=NO_NODE, directories=(lost, lost))])
    [(name, reason)] = gone(node)
    assert name == "t-0"
    assert reason.startswith("the replica in /a is not the one in the metadata")


def test_a_copy_of_an_unfinished_move_does_not_stand_for_its_origin():
    """What came after the controller was told of the move may be in the origin alone."""
    node = Node()
    node.create_copy("/b", batches=4)
    node.image = eligible("/b")
    assert gone(node) == [("t-0", "/b has only a copy of it, from a move that had not finished")]


def test_a_log_that_the_device_did_not_keep_is_gone():
    """BRK-3: a write may have failed behind the back of the process that was killed."""
    node = Node()
    node.create("/a", batches=3)
    node.disk.fail("sync", "/a/t-*", times=100)
    node.image = topic_image([replace(state(), isr=(OTHER,), leader=OTHER)])
    assert gone(node) == [], "where it does not matter, nobody asks the device"
    node.image = eligible("/a")
    [(name, reason)] = gone(node)
    assert name == "t-0"
    assert reason.startswith("the device lost writes to /a/t-0: ")
    assert node.directories["/a"].is_offline
