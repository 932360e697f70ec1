"""Members of a quorum through elections, crashes and power losses: one leader per epoch, and nothing acknowledged is ever lost."""

import asyncio
import json
from dataclasses import replace

import pytest

from esp.broker.raft.loader import MetadataLoader
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import NodeId
from esp.raft import quorum_state
from esp.raft.effects import ReadRecords
from esp.raft.member import LAST_EPOCH
from esp.raft.messages import AddVoterRequest, RemoveVoterRequest, VoterChangeResponse, VoteRequest, VoteResponse
from esp.raft.roles import Role
from esp.raft.voters import VoterKey
from esp.settings.addresses import QuorumVoter
from esp.settings.broker import BROKER
from tests.unit.broker.quorum_conversation import CLUSTER_ID, LOG_PATH, with_quorum


@with_quorum(1)
async def test_a_quorum_of_one_leads_itself_at_once(quorum):
    member = quorum[1]
    await member.run(member.raft.caught_up())
    assert quorum.loop.time() < 0.1
    assert member.raft.is_active
    assert member.raft.leader == 1
    assert await quorum.create("t")
    assert list(member.image.topics_by_name) == ["t"]


@with_quorum(1)
async def test_a_quorum_of_one_finds_everything_again(quorum):
    member = quorum[1]
    await quorum.elect()
    for name in "abc":
        assert await quorum.create(name)
    for power in (False, True):
        member.kill(power=power)
        await member.start()
        await member.run(member.raft.caught_up())
        assert list(member.image.topics_by_name) == ["a", "b", "c"]
        assert len(member.changes) == 1  # the first time with everything
        assert set(member.changes[0][0].topics_by_name) == {"a", "b", "c"}


@with_quorum(3)
async def test_a_quorum_in_the_last_epoch_lives_on_and_elects_again_when_all_are_set_back(quorum, caplog):
    """Decision 69. What OPERATIONS tells operators to write, on controllers and on a broker."""
    await quorum.elect()
    servers = tuple(member.address for member in quorum.alive)
    broker = quorum.add(
        4,
        formatted=True,
        process_roles=("broker",),
        endpoints=(),
        controller_quorum_bootstrap_servers=servers,
    )
    await broker.start()
    assert await quorum.create("early")
    await quorum.agree()
    asked, candidate = quorum[1], quorum[2]
    vote = VoteRequest(
        cluster_id=None,
        voter=VoterKey(NodeId(-1), candidate.directory_id),
        candidate_epoch=LAST_EPOCH,
        candidate=candidate.key,
        last_epoch=0,
        last_epoch_end_offset=0,
        pre_vote=True,
    )
    answer = await asked.run(asked.raft.request(vote, VoteResponse))
    assert not answer.is_granted
    await quorum.wait(lambda: all(member.raft.epoch == LAST_EPOCH for member in quorum.alive))
    assert "2147483647 is the last one" in caplog.text
    await asyncio.sleep(60)
    assert [member.raft.leader for member in quorum.alive] == [None] * 4, "none has ended, and none leads"

    for member in quorum.alive:
        await member.stop()
        path = f"{LOG_PATH}/{quorum_state.FILE_NAME}"
        if member is broker:
            member.disk.remove(path)
            continue
        file = json.loads(member.disk.read_file(path))
        assert (file["leaderEpoch"], file["leaderId"]) == (LAST_EPOCH, -1)
        file["leaderEpoch"], file["votedId"] = 1000, -1
        member.disk.replace_file_blocking(path, json.dumps(file).encode())
    await quorum.start()
    assert (await quorum.elect()).raft.epoch > 1000
    assert await quorum.create("later")
    assert list((await quorum.agree()).topics_by_name) == ["early", "later"]
    assert broker.is_alive


@pytest.mark.parametrize("voters", [3, 5])
def test_voters_elect_one_of_them_and_replicate(voters):
    @with_quorum(voters)
    async def scenario(quorum):
        leader = await quorum.elect()
        assert quorum.loop.time() < 5
        for name in "abc":
            assert await quorum.create(name)
        image = await quorum.agree()
        assert list(image.topics_by_name) == ["a", "b", "c"]
        assert [member.raft.leader for member in quorum.alive] == [leader.node_id] * voters
        assert sum(member.raft.is_leader for member in quorum.alive) == 1
        assert len({member.log_bytes() for member in quorum.alive}) == 1  # LOG-4

    scenario()


@with_quorum(3)
async def test_a_healthy_quorum_holds_no_elections(quorum):
    leader = await quorum.elect()
    epoch = leader.raft.epoch
    await asyncio.sleep(60)
    assert [member.raft.epoch for member in quorum.alive] == [epoch] * 3
    assert leader.raft.is_active


@pytest.mark.parametrize("seed", range(5))
def test_the_end_of_the_leaders_process_is_noticed_at_once(seed):
    @with_quorum(3, seed)
    async def scenario(quorum):
        leader = await quorum.elect()
        assert await quorum.create("before")
        start_s = quorum.loop.time()
        leader.kill()
        successor = await quorum.elect(other_than=leader)
        assert quorum.loop.time() - start_s < 0.4  # the time-outs are 2 s and more
        assert "before" in successor.image.topics_by_name  # RAFT-22
        assert await quorum.create("after")
        await leader.start()
        assert set((await quorum.agree()).topics_by_name) == {"before", "after"}
        assert len({member.log_bytes() for member in quorum.alive}) == 1

    scenario()


@with_quorum(3)
async def test_an_orderly_stop_of_the_leader_hands_over_at_once(quorum):
    leader = await quorum.elect()
    start_s = quorum.loop.time()
    await leader.stop()
    await quorum.elect(other_than=leader)
    assert quorum.loop.time() - start_s < 0.3


@with_quorum(3)
async def test_a_leader_that_is_gone_without_a_word_is_replaced_when_its_time_is_up(quorum):
    leader = await quorum.elect()
    leader.process.pause()
    start_s = quorum.loop.time()
    successor = await quorum.elect(other_than=leader)
    assert 1.5 < quorum.loop.time() - start_s < 10
    assert await quorum.create("t", successor)
    leader.process.resume()
    await quorum.wait(lambda: not leader.raft.is_active)
    assert "t" in (await quorum.agree()).topics_by_name
    assert leader.leaderships[-1][2] is False


@with_quorum(3)
async def test_proposals_without_a_majority_are_rolled_back(quorum):
    leader = await quorum.elect()
    others = [member for member in quorum.alive if member is not leader]
    for member in others:
        member.process.pause()
    creating = asyncio.ensure_future(quorum.create("lost"))
    await asyncio.sleep(0.1)
    assert "lost" in leader.loader.newest.topics_by_name
    assert "lost" not in leader.image.topics_by_name
    for member in others:  # what waited for them is lost with them
        member.kill()
    assert not await creating  # RAFT-7: it resigns, and says so
    assert not leader.raft.is_active
    assert leader.loader.newest is leader.image
    leader.process.pause()
    for member in others:
        await member.start()
    successor = await quorum.elect(other_than=leader)
    assert await quorum.create("kept", successor)
    leader.process.resume()
    image = await quorum.agree()
    assert list(image.topics_by_name) == ["kept"]
    assert len({member.log_bytes() for member in quorum.alive}) == 1


@with_quorum(3)
async def test_nothing_is_applied_before_it_is_known_to_be_committed(quorum):
    await quorum.elect()
    assert await quorum.create("t")
    await quorum.agree()
    for member in quorum.alive:
        member.kill()
    lonely = quorum[1]
    await lonely.start()
    await asyncio.sleep(20)
    assert lonely.raft.high_watermark == 0
    assert lonely.changes == []
    assert not lonely.raft.is_active


@with_quorum(3)
async def test_a_follower_that_was_away_catches_up_and_sees_one_change(quorum):
    leader = await quorum.elect()
    away = next(member for member in quorum.alive if member is not leader)
    away.kill(power=True)
    for number in range(20):
        assert await quorum.create(f"t{number}")
    await away.start()
    await away.run(away.raft.caught_up())
    assert len(away.image.topics_by_name) >= 20
    assert len(away.changes) == 1
    assert away.changes[0][1].deleted_topics == {}


@with_quorum(3)
async def test_a_broken_disk_ends_a_voter_and_the_others_go_on(quorum):
    leader = await quorum.elect()
    victim = next(member for member in quorum.alive if member is not leader)
    victim.disk.fail("sync", "*.log")
    assert await quorum.create("t")
    await quorum.wait(lambda: not victim.is_alive)
    assert "check its disk" in victim.process.end_reason
    assert await quorum.create("u")


@with_quorum(1)
async def test_a_full_disk_ends_the_only_voter_with_words_that_help(quorum):
    member = await quorum.elect()
    member.disk.fill_up(0)
    assert not await quorum.create("t")
    assert "make room on its disk" in member.process.end_reason


@pytest.mark.parametrize("seed", range(12))
def test_nothing_acknowledged_is_lost_in_any_order_of_crashes(seed):
    @with_quorum(3, seed)
    async def scenario(quorum):
        rng = quorum.rng
        acknowledged = []
        leaders = {}
        count = 0
        for _ in range(15):
            await quorum.wait(lambda: quorum.active is not None, 60)
            active = quorum.active
            assert leaders.setdefault(active.raft.epoch, active.node_id) == active.node_id  # RAFT-2
            work = []
            for _ in range(rng.randrange(4)):
                count += 1
                work.append((f"t{count}", asyncio.ensure_future(quorum.create(f"t{count}", active))))
            await asyncio.sleep(rng.random() * 0.03)
            victim = rng.choice(quorum.alive)
            victim.kill(power=rng.random() < 0.5)
            await asyncio.sleep(rng.random() * 0.3)
            for name, done in work:
                if done.done() and done.result():
                    acknowledged.append(name)
                done.cancel()
            await victim.start()
        await quorum.wait(lambda: quorum.active is not None, 60)
        assert await quorum.create("last")
        image = await quorum.agree()
        assert [name for name in acknowledged if name not in image.topics_by_name] == []
        assert len({member.log_bytes() for member in quorum.alive}) == 1  # LOG-4

    scenario()


@with_quorum(3)
async def test_a_restarted_leader_never_leads_its_epoch_again(quorum):
    leader = await quorum.elect()
    epoch = leader.raft.epoch
    for member in quorum.alive:
        member.kill()
    await leader.start()
    assert leader.raft._node.role is not Role.LEADER
    assert leader.raft.epoch >= epoch
    for member in quorum.members.values():
        if member is not leader:
            await member.start()
    assert (await quorum.elect()).raft.epoch > epoch  # RAFT-5


# --- observers, and who is refused -----------------------------------------------------------------------------------------------------


@with_quorum(3)
async def test_a_broker_finds_the_leader_through_any_bootstrap_server_and_observes(quorum):
    leader = await quorum.elect()
    assert await quorum.create("t")
    other = next(member for member in quorum.alive if member is not leader)
    broker = quorum.add(
        4, formatted=True, process_roles=("broker",), endpoints=(), controller_quorum_bootstrap_servers=(other.address,)
    )
    await broker.start()
    await broker.run(broker.raft.caught_up())
    assert list(broker.image.topics_by_name) == ["t"]
    assert broker.raft.leader == leader.node_id
    assert broker.raft.leader_address == leader.address
    assert not broker.raft.is_active
    leader.kill()
    successor = await quorum.elect(other_than=leader)
    assert await quorum.create("u", successor)
    await quorum.wait(lambda: "u" in broker.image.topics_by_name)
    assert broker.raft.leader == successor.node_id


@with_quorum(3, start=False)
async def test_static_voters_are_kafkas_older_mode(quorum):
    voters = tuple(QuorumVoter(member.node_id, *member.address) for member in quorum.members.values())
    for number in (1, 2, 3):
        member = quorum.add(number, formatted=True, controller_quorum_voters=voters)
        await member.start()
    leader = await quorum.elect()
    assert await quorum.create("t")
    await quorum.agree()
    assert leader.raft._node.kraft_version == 0
    assert b'"data_version":0' in leader.disk.read_file(f"{LOG_PATH}/quorum-state")
    leader.kill(power=True)
    assert await quorum.create("u", await quorum.elect(other_than=leader))


@with_quorum(1)
async def test_a_quorum_of_one_grows_to_three_and_lives_without_the_first(quorum):
    first = await quorum.elect()
    assert await quorum.create("t")
    for number in (2, 3):
        member = quorum.add(number, formatted=True, controller_quorum_bootstrap_servers=(first.address,))
        await member.start()
        await member.run(member.raft.caught_up())
        answer = await first.run(
            first.raft.request(
                AddVoterRequest(cluster_id=CLUSTER_ID, voter=member.key, endpoints=member.endpoints, timeout_ms=5000),
                VoterChangeResponse,
            )
        )
        assert answer.error is ErrorCode.none
    voters = first.raft.describe(first.raft.now()).voter_set
    assert voters.keys() == {member.key for member in quorum.members.values()}
    first.kill()
    successor = await quorum.elect(other_than=first)
    assert await quorum.create("u", successor)
    answer = await successor.run(
        successor.raft.request(RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=first.key), VoterChangeResponse)
    )
    assert answer.error is ErrorCode.none
    description = successor.raft.describe(successor.raft.now())
    assert {voter.key.node_id for voter in description.voters} == {2, 3}


@with_quorum(3)
async def test_a_node_of_another_cluster_gets_nothing_and_says_why(quorum, caplog):
    await quorum.elect()
    stranger = quorum.add(
        4,
        formatted=True,
        process_roles=("broker",),
        endpoints=(),
        controller_quorum_bootstrap_servers=(quorum[1].address,),
        cluster_id="another",
    )
    await stranger.start()
    await asyncio.sleep(5)
    assert stranger.changes == []
    told = [
        record.getMessage() for record in caplog.records if "INCONSISTENT_CLUSTER_ID".lower() in record.getMessage()
    ]
    assert len(told) == 1
    assert "controller.quorum.bootstrap.servers" in told[0]


@with_quorum(3)
async def test_a_voter_with_another_disk_only_observes_and_says_why(quorum, caplog):
    """RAFT-45"""
    leader = await quorum.elect()
    victim = next(member for member in quorum.alive if member is not leader)
    victim.kill()
    swapped = quorum.add(victim.node_id, controller_quorum_bootstrap_servers=(leader.address,))
    swapped.format(quorum.voters)
    await swapped.start()
    await swapped.run(swapped.raft.caught_up())
    assert any("add-controller" in record.getMessage() for record in caplog.records)
    assert await quorum.create("t")
    await quorum.wait(lambda: "t" in swapped.image.topics_by_name)
    leader.kill()
    await asyncio.sleep(20)
    assert quorum.active is None  # one of three voters is left: the swapped one does not count


@with_quorum(1)
async def test_the_only_voter_is_refused_another_disk(quorum):
    quorum[1].kill()
    swapped = quorum.add(1)
    swapped.format(quorum.voters)
    with pytest.raises(OperatorError, match="Give the node the data directory that it had"):
        await swapped.start()


@with_quorum(1, start=False)
async def test_a_member_that_knows_nobody_is_refused(quorum):
    lost = quorum.add(2, formatted=True)
    with pytest.raises(OperatorError, match=r"controller\.quorum\.bootstrap\.servers"):
        await lost.start()


@with_quorum(3, start=False)
async def test_a_voter_without_the_role_is_refused(quorum):
    with pytest.raises(OperatorError, match=r"process\.roles"):
        await quorum[1].start(process_roles=("broker",))


@with_quorum(3)
async def test_a_damaged_log_is_refused_at_the_start(quorum):
    member = quorum[1]
    await quorum.elect()
    assert await quorum.create("t")
    await quorum.agree()
    await member.stop()
    member.disk.corrupt(f"{LOG_PATH}/{0:020d}.log", 130)
    with pytest.raises(OperatorError, match="corrupt"):
        await member.start()


def test_the_same_seed_gives_the_same_run():
    def run():
        @with_quorum(3, 7)
        async def scenario(quorum):
            for number in range(3):
                leader = await quorum.elect()
                assert await quorum.create(f"t{number}")
                leader.kill(power=True)
                await quorum.elect(other_than=leader)
                await leader.start()
            await quorum.agree()
            return quorum.loop.steps, quorum.loop.time(), [member.log_bytes() for member in quorum.alive]

        return scenario()

    assert run() == run()


@with_quorum(3)
async def test_a_voter_without_a_leader_describes_what_it_knows(quorum):
    leader = await quorum.elect()
    await quorum.create("t")
    await quorum.agree()
    [left, other] = [member for member in quorum.alive if member is not leader]
    epoch = left.raft.epoch
    leader.kill()
    other.kill()
    await quorum.wait(lambda: left.raft.leader is None)
    assert left.raft.describe(left.raft.now()) is None
    told = left.raft.describe_from_here()
    assert (told.leader_id, told.leader_epoch, told.observers) == (-1, epoch, ())
    ends = {each.key.node_id: each.log_end_offset for each in told.voters}
    assert ends == {1: -1, 2: -1, 3: -1} | {left.node_id: left.raft.next_offset}
    assert list(ends) == [1, 2, 3]


@with_quorum(3)
async def test_a_node_without_the_role_describes_itself_as_an_observer_also_where_it_is_named_a_voter(quorum):
    await quorum.elect()
    member = quorum.alive[0]
    settings = replace(member.raft.config.settings, process_roles=(BROKER,))
    member.raft.config = replace(member.raft.config, settings=settings)
    assert [each.key.node_id for each in member.raft.describe_from_here().observers] == [member.node_id]


@with_quorum(
    1,
    metadata_log_max_record_bytes_between_snapshots=1000,
    metadata_max_retention_bytes=1,
    metadata_max_retention_ms=-1,
)
async def test_records_below_the_log_start_are_given_to_no_follower(quorum):
    """RAFT-32: the core may decide on a fetch before it hears that the log start was raised; the next one is told a snapshot."""
    member = await quorum.elect()
    count = 0
    while member.log.log_start_offset == 0:
        count += 1
        assert await quorum.create(f"t{count}")
    read = ReadRecords(0, member.log.log_end_offset, 1_000_000)
    assert member.raft.files.read_records(read) == b""
    assert await member.run(member.raft.files.read_records_cold(read)) == b""


@with_quorum(
    1,
    metadata_log_max_record_bytes_between_snapshots=1000,
    metadata_max_retention_bytes=1,
    metadata_max_retention_ms=-1,
)
async def test_a_request_that_comes_while_the_first_snapshot_is_loaded_is_answered_after_that(quorum, monkeypatch):
    member = await quorum.elect()
    while member.log.log_start_offset == 0:
        assert await quorum.create(f"t{len(member.image.topics_by_name)}")
    names, load, asked = list(member.image.topics_by_name), MetadataLoader.load, []
    vote = VoteRequest(
        cluster_id=None,
        voter=member.key,
        candidate_epoch=member.raft.epoch,
        candidate=member.key,
        last_epoch=0,
        last_epoch_end_offset=0,
        pre_vote=True,
    )

    async def slow_load(*args):
        asked.append(asyncio.create_task(member.raft.request(vote, VoteResponse)))
        await asyncio.sleep(5)
        assert not asked[0].done()
        assert not member.raft.is_leader
        await load(*args)

    monkeypatch.setattr(MetadataLoader, "load", slow_load)
    member.kill()
    await member.start()
    await member.run(member.raft.caught_up())
    assert list(member.image.topics_by_name) == names
    assert not (await asked[0]).is_granted
    assert len(member.changes) == 1
