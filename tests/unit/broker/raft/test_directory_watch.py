"""The directory of the metadata log while the node runs: what its checkpoints tell the next start, and what ends the node."""

import asyncio
from contextlib import suppress

import pytest

from esp.broker.raft.directory_watch import MetadataDirectoryWatch
from esp.model.errors import OperatorError
from esp.simulation.machine.loop import ProcessEndedError
from tests.unit.broker.quorum_conversation import LOG_PATH, PATH, with_quorum
from tests.unit.broker.simulated_node import simulated


def _watch(member, *, writes_checkpoints=True):
    """A watch over a member's directory that runs in its process."""
    subject = MetadataDirectoryWatch(member.env, member.directory, member.lock, writes_checkpoints=writes_checkpoints)
    member.process.context.copy().run(subject.start)
    return subject


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_records_that_a_voter_has_confirmed_are_no_torn_tail_when_they_have_rotted(place, power):
    """REC-4, RAFT-3: a voter that starts without them votes for members that lack them too."""

    @with_quorum(3)
    async def scenario(quorum):
        await quorum.elect()
        for number in range(20):
            assert await quorum.create(f"t{number}")
        await quorum.agree()
        member = quorum[2]
        _watch(member)
        await asyncio.sleep(6)
        member.kill(power=power)
        segment = f"{LOG_PATH}/{0:020d}.log"
        before = member.disk.read_file(segment)
        member.disk.corrupt(segment, int(len(before) * place))
        with pytest.raises(OperatorError, match="metadata log"):
            await member.start()
        assert len(member.disk.read_file(segment)) == len(before), "nothing was cut that may help to repair it"

    scenario()


@with_quorum(1)
async def test_checkpoints_are_written_when_they_have_changed_only(quorum):
    member = await quorum.elect()
    _watch(member)
    await asyncio.sleep(6)
    written = []
    member.directory.write_checkpoints_blocking = lambda: written.append(quorum.loop.time())
    await asyncio.sleep(60)
    assert written == []
    assert await quorum.create("t")
    await asyncio.sleep(60)
    assert len(written) == 1


@with_quorum(1)
async def test_the_checkpoints_of_a_brokers_data_directory_are_left_to_its_maintenance(quorum):
    member = await quorum.elect()
    member.directory.write_checkpoints_blocking = lambda: pytest.fail("they have another writer")
    _watch(member, writes_checkpoints=False)
    await asyncio.sleep(60)
    assert member.is_alive


@with_quorum(1)
async def test_a_full_disk_is_no_reason_to_stop(quorum, caplog):
    member = await quorum.elect()
    member.disk.fail("create", "*-checkpoint*")
    _watch(member)
    await asyncio.sleep(6)
    assert member.is_alive
    assert "which is retried" in caplog.text


@with_quorum(1)
async def test_the_watch_ends_in_order(quorum):
    member = await quorum.elect()
    subject = _watch(member)
    await member.run(subject.close())
    member.disk.remove_tree(PATH)
    await asyncio.sleep(20)
    assert member.is_alive


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("path", ["/meta", "/data"])
@pytest.mark.parametrize("roles", [("broker", "controller"), ("controller",)])
def test_a_node_whose_metadata_log_is_not_there_any_more_ends(roles, path, is_replaced):
    """RAFT-16: its open files take votes and records that no start finds."""

    @simulated(process_roles=roles, log_dirs=("/data", "/other"), metadata_log_dir=path)
    async def scenario(node):
        await asyncio.sleep(20)
        assert node.process.alive
        node.disk.remove_tree(path)
        if is_replaced:
            node.disk.make_directory(path)
            node.disk.write_file(f"{path}/.lock", b"")
        with suppress(ProcessEndedError):
            await asyncio.sleep(11)
        assert not node.process.alive
        assert f"{path} was removed, unmounted or replaced while this node runs" in node.process.end_reason
        assert "the metadata log" in node.process.end_reason
        assert "defect" not in node.process.end_reason

    scenario()
