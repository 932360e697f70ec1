"""What an operator does, and what the nemesis may ask of a disk, on a cluster that runs."""

import asyncio
import dataclasses
from types import SimpleNamespace

import pytest

from esp.model.ids import METADATA_PARTITION, TopicPartition
from esp.simulation.machine.disk_image import walk
from esp.simulation.nodes_tier.caretaker import ASIDE, Caretaker, blames_disk, find_named, find_unnamed
from esp.simulation.nodes_tier.disk_nemesis import DiskNemesis
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.rot import RotKind, find_targets
from esp.simulation.nodes_tier.world import World
from esp.storage.checkpoints import read_checkpoint, write_checkpoint_blocking
from esp.storage.layout import CLEAN_SHUTDOWN_FILE, LOG_START_FILE, LOG_SUFFIX, RECOVERY_POINT_FILE, RUNNING_FILE

PROFILE = Profile.draw(1, node_count=3)
METADATA = "/data/__cluster_metadata-0"
MORE_IDENTITY = "/more/meta.properties"


def with_world(scenario, profile=PROFILE):
    """Run a scenario on three nodes that serve."""

    def run():
        world = World(profile)

        async def main():
            await world.boot()
            await scenario(world, Ledger(1, copies_allowed=1, members_allowed=1))

        world.loop.run(main())

    return run


def file_of(node, kind):
    return next(target for target in find_targets(node.disk) if target.kind is kind)


@with_world
async def scenario_of_an_identity(world, ledger):
    node = world.nodes[1]
    node.kill()
    target = file_of(node, RotKind.IDENTITY)
    target.content.rot(3, 0x80)
    world.on_failed_start = Caretaker(world, ledger).look_after
    await world.start(node)
    assert node.is_serving
    assert not target.content.rotten


def test_who_has_a_copy_of_a_file_of_identity_restores_it():
    scenario_of_an_identity()


@with_world
async def scenario_of_the_quorum_state(world, ledger):
    node = world.nodes[1]
    node.kill()
    target = next(target for target in find_targets(node.disk) if target.path.endswith("quorum-state"))
    target.content.rot(3, 0x80)
    world.on_failed_start = Caretaker(world, ledger).look_after
    await world.start(node)
    assert node.is_serving
    assert (ledger.repairs, ledger.replaced_disks) == (1, 1)
    assert list(ledger.strangers) == [1]
    assert list(ledger.copies) == [1]


def test_a_member_whose_vote_has_rotted_comes_back_as_a_stranger():
    scenario_of_the_quorum_state()


@with_world
async def scenario_of_words(world, _ledger):
    node = world.nodes[1]
    target = file_of(node, RotKind.METADATA)
    node.kill()
    node.process.end_reason = f"something in {target.directory} is wrong"
    assert not find_named(node), "nothing has rotted"
    target.content.rot(3, 1)
    assert find_named(node) == [target]
    node.process.end_reason = "AssertionError"
    assert not find_named(node), "it does not say so"
    node.rotten_at_start = [target]
    target.content.mend()
    node.process.end_reason = f"{target.path} ends too early"
    assert find_named(node) == [target], "it cut the rot away before it found out what that was"


def test_only_a_rotten_file_that_is_named_explains_an_end():
    scenario_of_words()


@pytest.mark.parametrize(
    ("was_faulty", "reason", "is_excused"),
    [
        (True, "the metadata log /data/m-0 failed: OSError(5, 'Input/output error'); check its disk", True),
        (True, "/data/t-0 cannot be written: [Errno 28] No space left on device; no log directory is left", True),
        (True, "could not register within 60 s", False),
        (False, "the metadata log /data/m-0 failed: OSError(5, 'Input/output error'); check its disk", False),
    ],
)
def test_a_disk_that_failed_explains_only_an_end_that_blames_it(was_faulty, reason, is_excused):
    assert blames_disk(SimpleNamespace(disk_was_faulty=was_faulty, end_reason=reason)) is is_excused


@with_world
async def scenario_of_moving_away(world, _ledger):
    node = world.nodes[1]
    node.kill()
    node.disk.make_directory("/data/t-0")
    node.disk.write_file("/data/t-0/a", b"1")
    node.move_away("/data/t-0", ASIDE)
    assert not node.disk.exists("/data/t-0")
    assert [path for path, _ in walk(node.disk, ASIDE)] == [f"{ASIDE}/1-t-0/a"]


def test_a_directory_that_is_moved_away_is_kept():
    scenario_of_moving_away()


@with_world
async def scenario_of_old_records(world, ledger):
    node = world.nodes[1]
    caretaker = Caretaker(world, ledger)
    node.disk.write_file("/data/old", b"1")
    node.damaged["/data/t-0"] = None
    copied = caretaker.copy_records(node)
    node.damaged.clear()
    node.disk.write_file("/data/new", b"2")
    identity = node.disk.read_file("/data/meta.properties")
    await asyncio.sleep(1)
    metadata = [target.path for target in find_targets(node.disk) if target.kind is RotKind.METADATA]
    node.kill()
    caretaker.restore_records(node, copied)
    assert list(node.damaged) == ["/data/t-0"], "what had vanished then is not there again"
    assert node.disk.exists("/data/old")
    assert not node.disk.exists("/data/new")
    assert node.disk.read_file("/data/meta.properties") == identity
    assert [target.path for target in find_targets(node.disk) if target.kind is RotKind.METADATA] == metadata
    await world.start(node)
    assert node.is_serving


def test_an_old_copy_of_the_records_leaves_the_member_of_the_quorum_as_it_is():
    scenario_of_old_records()


TWO_DIRECTORIES = dataclasses.replace(PROFILE, has_more=True)


@pytest.mark.parametrize("is_same_disk", [False, True])
def test_records_that_come_back_without_their_directory_get_its_identity_back_or_give_way_to_an_empty_one(is_same_disk):
    async def scenario(world, ledger):
        node, caretaker = world.nodes[1], Caretaker(world, ledger)
        told = []
        caretaker.on_moved_away = lambda _node, path: told.append(path)
        world.on_failed_start = caretaker.look_after
        identity = node.disk.read_file(MORE_IDENTITY)
        node.kill()
        node.disk.crash()
        node.disk.make_directory("/more/t-0")
        node.disk.replace_file_blocking("/more/t-0/file", b"old")
        node.damaged["/more/t-0"] = None
        copied = (caretaker.copy_synced_records if is_same_disk else caretaker.copy_records)(node)
        node.disk.remove_tree("/more")
        caretaker.restore_records(node, copied, is_same_disk=is_same_disk)
        assert not await node.start()
        assert find_unnamed(node) == "/more"
        await world.start(node)
        assert node.is_serving
        assert ledger.repairs == 1
        assert find_unnamed(node) is None
        assert (node.disk.read_file(MORE_IDENTITY) == identity) is not is_same_disk
        assert ("/more/t-0" in told) is ("/more/t-0" not in node.damaged) is is_same_disk

    with_world(scenario, TWO_DIRECTORIES)()


@with_world
async def scenario_of_a_lost_identity(world, ledger):
    """Nothing but an old copy excuses it: the directory was whole a moment ago."""
    node = world.nodes[1]
    node.kill()
    node.disk.crash()
    node.disk.remove("/data/meta.properties")
    assert not await node.start()
    assert "holds partitions but no meta.properties" in node.end_reason
    assert find_unnamed(node) is None
    Caretaker(world, ledger).look_after(node)
    assert not ledger.repairs


def test_an_identity_that_no_old_copy_lacks_is_not_put_back():
    scenario_of_a_lost_identity()


@with_world
async def scenario_of_another_metadata_log(world, ledger):
    """The copy is of the disk before, on which more of the metadata log was flushed than there is on the new one."""
    node, caretaker = world.nodes[1], Caretaker(world, ledger)
    node.kill()
    node.disk.crash()
    path, record = f"/data/{RECOVERY_POINT_FILE}", TopicPartition("t", 0)
    write_checkpoint_blocking(node.disk, path, {METADATA_PARTITION: 10_000, record: 5})
    of_metadata_alone = f"/data/{LOG_START_FILE}"
    write_checkpoint_blocking(node.disk, of_metadata_alone, {METADATA_PARTITION: 10_000})
    copied = caretaker.copy_records(node)
    caretaker.replace_disk(node)
    caretaker.restore_records(node, copied)
    assert read_checkpoint(node.disk, path) == {record: 5}
    assert not node.disk.exists(of_metadata_alone)
    await world.start(node)
    assert node.is_serving
    node.kill()
    node.disk.crash()
    write_checkpoint_blocking(node.disk, path, {METADATA_PARTITION: 3})
    caretaker.restore_records(node, copied)
    assert read_checkpoint(node.disk, path) == {METADATA_PARTITION: 3, record: 5}
    node.disk.corrupt(path, 0, 0x80)
    caretaker.restore_records(node, copied)
    assert read_checkpoint(node.disk, path) == {record: 5}, "what cannot be read counts as absent"


def test_an_old_copy_of_the_records_says_nothing_of_the_metadata_log():
    scenario_of_another_metadata_log()


@with_world
async def scenario_of_the_life_that_has_just_ended(world, ledger):
    caretaker = Caretaker(world, ledger)
    for believes, node in ((True, world.nodes[1]), (False, world.nodes[2])):
        world.profile = dataclasses.replace(PROFILE, believes_markers=believes)
        path = f"/data/{RUNNING_FILE}"
        identity = node.disk.stat(path).identity
        copied = caretaker.copy_records(node)
        node.kill()
        caretaker.restore_records(node, copied)
        assert (node.disk.stat(path).identity == identity) is not believes
        assert (ledger.last_lives, ledger.markers_in_place) == (0 if believes else len(node.settings.log_dirs), 0)


def test_a_copy_of_the_last_life_stands_in_the_very_files_only_where_markers_are_doubted():
    scenario_of_the_life_that_has_just_ended()


@with_world
async def scenario_of_a_clean_shutdown(world, ledger):
    """The copy is of a node that was stopped in order; the node of now was not."""
    node, caretaker = world.nodes[1], Caretaker(world, ledger)
    await node.stop()
    copied = caretaker.copy_records(node)
    assert any(path.endswith(CLEAN_SHUTDOWN_FILE) for path in copied.files)
    for torn in (False, True):
        await world.start(node)
        node.kill()
        node.disk.crash()
        if torn:
            *_, active = sorted(path for path, _ in walk(node.disk, METADATA) if path.endswith(LOG_SUFFIX))
            node.disk.open(active).append([bytes(20)])
        caretaker.restore_records(node, copied)
        assert node.disk.exists(f"/data/{CLEAN_SHUTDOWN_FILE}") is not torn
    await world.start(node)
    assert node.is_serving


def test_an_old_copy_tells_of_no_clean_shutdown_where_the_metadata_log_is_torn():
    scenario_of_a_clean_shutdown()


@with_world
async def scenario_of_the_budget(world, ledger):
    nemesis = DiskNemesis(world, ledger, lambda: False)
    assert nemesis.replace(Fault(0, FaultKind.NEW_DISK, (1,), 0.1), world.nodes[1])
    assert not nemesis.replace(Fault(0, FaultKind.NEW_DISK, (2,), 0.1), world.nodes[2])
    await asyncio.sleep(5)
    assert world.nodes[1].is_serving
    ledger.on_whole()
    assert not nemesis.replace(Fault(0, FaultKind.NEW_DISK, (2,), 0.1), world.nodes[2]), "a majority of disks stays"


def test_no_more_disks_are_replaced_than_the_ledger_covers():
    scenario_of_the_budget()


@with_world
async def scenario_of_a_full_disk(world, ledger):
    node = world.nodes[1]
    node.disk.fill_up(100)
    node.kill()
    Caretaker(world, ledger).replace_disk(node)
    await world.start(node)
    assert node.is_serving


def test_a_new_disk_has_room_where_the_old_one_had_none():
    scenario_of_a_full_disk()


@pytest.mark.parametrize("amount", [0.1, 0.2, 0.3, 0.4, 0.5])
def test_rot_is_brought_where_it_may_be_and_remembered(amount):
    @with_world
    async def scenario(world, ledger):
        nemesis = DiskNemesis(world, ledger, lambda: False)
        done = nemesis.rot(Fault(0, FaultKind.BIT_ROT, (1,), 0, amount), world.nodes[1])
        rotten = [target for target in find_targets(world.nodes[1].disk) if target.content.rotten]
        assert len(rotten) == ledger.rotten_files == int(done)

    scenario()
