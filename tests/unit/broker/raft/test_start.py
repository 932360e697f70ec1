"""Whatever a crash leaves on the disk, a member begins where log and newest snapshot agree, or says why it cannot."""

import asyncio
import errno

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import METADATA_PARTITION
from esp.raft.snapshot import FIRST
from esp.simulation.machine.disk_image import make_tree, take_image
from esp.simulation.machine.loop import ProcessEndedError
from esp.storage.checkpoints import write_checkpoint_blocking
from esp.storage.layout import HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from tests.unit.broker.quorum_conversation import LOG_PATH, PATH, with_quorum

SMALL = {
    "metadata_log_max_record_bytes_between_snapshots": 1000,
    "metadata_max_retention_bytes": 1,
    "metadata_max_retention_ms": -1,
}


def add_observer(quorum, leader):
    """A broker that follows the quorum and never votes; it is not started yet."""
    return quorum.add(
        4,
        formatted=True,
        process_roles=("broker",),
        endpoints=(),
        controller_quorum_bootstrap_servers=(leader.address,),
    )


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("changes", range(4, 40, 2))
def test_a_transfer_may_be_cut_off_at_any_change_of_the_disk(changes, power):
    """RAFT-31, RAFT-32: between the snapshot's name and the cutting of the log, too."""

    @with_quorum(3, changes, **SMALL)
    async def scenario(quorum):
        leader = await quorum.elect()
        away = next(member for member in quorum.alive if member is not leader)
        assert await quorum.create("early")
        await quorum.agree()
        away.kill()
        created = 0
        while created < 30 or leader.log.log_start_offset <= 10:  # a snapshot may take its time
            assert await quorum.create(f"t{created}")
            created += 1
        away.disk.kill_after(changes)
        try:
            await away.start()
            await asyncio.sleep(1)
        except ProcessEndedError:
            pass
        if away.is_alive:
            away.kill()
        away.settle(power=power)
        await away.start()
        image = await quorum.agree()
        assert len(image.topics_by_id) == created + 1
        assert away.log.log_start_offset > 10

    scenario()


@with_quorum(1, **SMALL)
async def test_a_log_that_begins_where_no_snapshot_ends_is_refused(quorum):
    member = await quorum.elect()
    for number in range(40):
        assert await quorum.create(f"t{number}")
    await asyncio.sleep(0.1)
    await member.stop()
    for name in member.names(".checkpoint"):
        member.disk.remove(f"{LOG_PATH}/{name}")
    with pytest.raises(OperatorError, match="there is no snapshot"):
        await member.start()


@with_quorum(1, **SMALL)
async def test_a_log_start_that_is_raised_again_at_the_start_is_the_one_that_followers_are_held_against(quorum):
    """RAFT-31: else the leader reads for a follower what it has no more."""
    member = await quorum.elect()
    for number in range(40):
        assert await quorum.create(f"t{number}")
    await asyncio.sleep(0.1)
    log_start_offset = member.log.log_start_offset
    assert log_start_offset > 10
    await member.stop()
    write_checkpoint_blocking(member.disk, f"{PATH}/{LOG_START_FILE}", {METADATA_PARTITION: log_start_offset - 1})
    await member.start()
    assert member.log.log_start_offset == log_start_offset
    assert member.raft._node._member.log.start_offset == log_start_offset


@with_quorum(1)
async def test_a_damaged_first_snapshot_is_refused(quorum):
    await quorum.elect()
    await quorum[1].stop()
    quorum[1].disk.corrupt(f"{LOG_PATH}/{FIRST.file_name}", 70)
    with pytest.raises(OperatorError, match="corrupt"):
        await quorum[1].start()


@with_quorum(1)
async def test_a_damaged_quorum_state_is_refused(quorum):
    await quorum.elect()
    await quorum[1].stop()
    quorum[1].disk.corrupt(f"{LOG_PATH}/quorum-state", 0)
    with pytest.raises(OperatorError, match="quorum-state"):
        await quorum[1].start()


@with_quorum(3)
async def test_a_log_out_of_the_page_cache_is_read_all_the_same(quorum):
    await quorum.elect()
    for number in range(30):
        assert await quorum.create(f"t{number}")
    await quorum.agree()
    for member in quorum.alive:
        await member.stop()
        member.disk.make_cold(f"{LOG_PATH}/{0:020d}.log")
    for member in quorum.members.values():
        await member.start()
        member.disk.make_cold(f"{LOG_PATH}/{0:020d}.log")
    leader = await quorum.elect()
    assert len(leader.image.topics_by_id) == 30
    leader.disk.make_cold(f"{LOG_PATH}/{0:020d}.log")
    observer = add_observer(quorum, leader)
    await observer.start()
    await observer.run(observer.raft.caught_up())
    assert len(observer.image.topics_by_id) == 30
    assert await quorum.create("last")


@with_quorum(1)
async def test_a_node_that_never_votes_may_have_lost_what_it_knew_to_be_committed(quorum):
    """RAFT-11: it does not flush what it fetches, and fetches it again."""
    leader = await quorum.elect()
    observer = add_observer(quorum, leader)
    await observer.start()
    assert await quorum.create("topic")
    await quorum.agree()
    end_offset = observer.log.log_end_offset
    observer.kill()
    observer.settle()
    write_checkpoint_blocking(observer.disk, f"{PATH}/{HIGH_WATERMARK_FILE}", {METADATA_PARTITION: end_offset + 1})
    await observer.start()
    await observer.run(observer.raft.caught_up())
    assert len(observer.image.topics_by_id) == 1


@with_quorum(1)
async def test_a_voter_that_lost_what_it_knew_to_be_committed_is_refused(quorum):
    leader = await quorum.elect()
    end_offset = leader.log.log_end_offset
    await leader.stop()
    write_checkpoint_blocking(leader.disk, f"{PATH}/{HIGH_WATERMARK_FILE}", {METADATA_PARTITION: end_offset + 10})
    with pytest.raises(OperatorError, match="was committed"):
        await leader.start()


@pytest.mark.parametrize("committed", [0, 1])
@with_quorum(3)
async def test_a_member_whose_log_lost_what_it_knew_to_be_committed_takes_no_part(quorum, committed):
    """REC-4: recovery takes what has rotted for a torn write; with a shorter log the member would vote for others that lack it too."""
    leader = await quorum.elect()
    for number in range(5):
        assert await quorum.create(f"t{number}")
    await quorum.agree()
    member = next(member for member in quorum.alive if member is not leader)
    end_offset = member.log.log_end_offset
    member.kill()
    member.settle(power=False)
    write_checkpoint_blocking(
        member.disk, f"{PATH}/{HIGH_WATERMARK_FILE}", {METADATA_PARTITION: end_offset * committed}
    )
    write_checkpoint_blocking(member.disk, f"{PATH}/{RECOVERY_POINT_FILE}", {})
    segment = f"{LOG_PATH}/{0:020d}.log"
    member.disk.corrupt(segment, member.disk.stat(segment).size - 1)
    if committed:
        with pytest.raises(OperatorError, match=f"{end_offset} was committed"):
            await member.start()
    else:
        await member.start()
        assert (await quorum.agree()).offset >= end_offset - 1


@pytest.mark.parametrize("is_voter", [True, False])
@with_quorum(3)
async def test_a_voter_does_not_cut_after_a_restart_what_it_knew_to_be_committed(quorum, is_voter):
    """RAFT-10: two voters lose records that they had synced, and elect a leader that lacks them."""
    await quorum.elect()
    servers = tuple(member.address for member in quorum.alive)
    config = {"process_roles": ("broker",), "endpoints": (), "controller_quorum_bootstrap_servers": servers}
    keeper = quorum[3] if is_voter else quorum.add(4, formatted=True, **config)
    if not is_voter:
        await keeper.start()
        await quorum[3].stop()
    assert await quorum.create("early")
    await quorum.agree()
    losers = (quorum[1], quorum[2])
    copies = {}
    for loser in losers:
        await loser.stop()
        copies[loser] = take_image(loser.disk, "/", lambda _path: True)
        await loser.start()
    await quorum.elect()
    for number in range(5):
        assert await quorum.create(f"t{number}")
    await quorum.agree()
    for member in quorum.alive:
        await member.stop()
    known = keeper.log.high_watermark
    for loser, copied in copies.items():
        votes = f"{LOG_PATH}/quorum-state"  # else an epoch would be led a second time
        loser.disk.install(make_tree({**copied, votes: loser.disk.read_file(votes)}))
        await loser.start()
    await quorum.elect()
    assert await quorum.create("other")
    await quorum.agree()
    for _ in range(2 if is_voter else 0):
        await keeper.start()
        await quorum.wait(lambda: not keeper.is_alive)
        assert f"everything below {known} is committed here" in keeper.process.end_reason
        keeper.settle()
    if not is_voter:  # a restart says that its log may go, as it counts for nothing
        await keeper.start()
        assert len((await quorum.agree()).topics_by_id) == 2


@pytest.mark.parametrize("seed", range(5))
def test_a_voter_that_lost_what_it_knew_to_be_committed_but_had_not_flushed_starts_and_fetches_it_again(seed):
    """A follower is told of a commit with the records themselves: what it writes down of that is no more than is on its disk."""

    @with_quorum(3, seed)
    async def scenario(quorum):
        leader = await quorum.elect()
        away = next(member for member in quorum.alive if member is not leader)
        away.kill()
        for number in range(30):
            assert await quorum.create(f"t{number}")
        await away.start()

        async def slow(_operation, _size):
            await asyncio.sleep(1)

        wait, away.disk.wait = away.disk.wait, slow
        await quorum.wait(lambda: away.log.high_watermark > away.log.recovery_point)
        known = away.log.high_watermark
        away.directory.write_high_watermarks_blocking()
        away.disk.wait = wait
        away.kill(power=True)
        await away.start()
        assert away.log.checkpointed_high_watermark < known
        assert len((await quorum.agree()).topics_by_id) == 30

    scenario()


@pytest.mark.parametrize("voters", [1, 3])
def test_a_voter_whose_metadata_log_is_gone_is_refused(voters):
    """RAFT-45: it would vote, by the id of its directory, for members that lack what it has confirmed."""

    @with_quorum(voters)
    async def scenario(quorum):
        await quorum.elect()
        assert await quorum.create("t")
        await quorum.agree()
        await quorum[1].stop()
        quorum[1].disk.remove_tree(LOG_PATH)
        for _ in range(2):
            with pytest.raises(OperatorError, match="is gone"):
                await quorum[1].start()
            quorum[1].kill(power=True)

    scenario()


@with_quorum(3)
async def test_a_voter_whose_metadata_log_has_lost_its_identity_is_refused(quorum):
    """It would be begun anew, and what was written down of it forgotten."""
    await quorum.elect()
    assert await quorum.create("t")
    await quorum.agree()
    await quorum[1].stop()
    quorum[1].disk.remove(f"{LOG_PATH}/partition.metadata")
    with pytest.raises(OperatorError, match=r"no readable partition\.metadata"):
        await quorum[1].start()


@with_quorum(1)
async def test_a_broker_whose_metadata_log_is_gone_fetches_it_again(quorum):
    leader = await quorum.elect()
    observer = add_observer(quorum, leader)
    await observer.start()
    assert await quorum.create("t")
    await quorum.agree()
    await observer.stop()
    observer.disk.remove_tree(LOG_PATH)
    await observer.start()
    assert list((await quorum.agree()).topics_by_name) == ["t"]


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@with_quorum(3)
async def test_a_voter_that_does_not_know_its_votes_any_more_is_refused(quorum, power):
    """RAFT-1: it would vote in an epoch a second time."""
    await quorum.elect()
    quorum[1].kill(power=power)
    quorum[1].disk.remove(f"{LOG_PATH}/quorum-state")
    with pytest.raises(OperatorError, match="the votes of this node are not known any more"):
        await quorum[1].start()


@with_quorum(3)
async def test_a_voter_that_was_killed_before_it_had_a_vote_to_remember_starts(quorum):
    others = [quorum[number] for number in (2, 3)]
    for member in quorum.alive:
        member.kill()
    assert "quorum-state" not in quorum[1].names()
    for member in (quorum[1], *others):
        await member.start()
    assert await quorum.elect()


@with_quorum(1)
async def test_the_only_voter_needs_no_vote_to_go_on(quorum):
    """Its log knows the epoch, and no other member stands for election."""
    member = await quorum.elect()
    assert await quorum.create("t")
    epoch = member.raft.epoch
    await member.stop()
    member.disk.remove(f"{LOG_PATH}/quorum-state")
    await member.start()
    assert (await quorum.elect()).raft.epoch > epoch
    assert list(member.image.topics_by_name) == ["t"]


@pytest.mark.parametrize(("error", "pattern"), [(errno.EIO, "*.checkpoint"), (errno.ENOSPC, "*.checkpoint")])
@with_quorum(3)
async def test_a_disk_that_fails_at_the_start_is_no_corrupt_log(quorum, error, pattern):
    """The operator would restore an older copy, or replace the voter, for an error that may pass."""
    await quorum.elect()
    await quorum[1].stop()
    quorum[1].disk.fail("read", pattern, error=error)
    with pytest.raises(OperatorError, match="cannot be opened") as raised:
        await quorum[1].start()
    assert "make room" in str(raised.value)
    assert "copy" not in str(raised.value)


@with_quorum(3)
async def test_a_voter_with_a_corrupt_log_is_to_be_replaced_not_restored(quorum):
    """RAFT-1: an older copy has not the votes that it gave since."""
    await quorum.elect()
    await quorum[1].stop()
    quorum[1].disk.corrupt(f"{LOG_PATH}/{FIRST.file_name}", 70)
    with pytest.raises(OperatorError, match="replace this one"):
        await quorum[1].start()
