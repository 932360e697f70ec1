"""Whole runs. The three hash seeds stand for everything that differs between two processes."""

import dataclasses
import os
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from uuid import UUID

import pytest

from esp.model.ids import TopicId
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import tallied
from esp.simulation.nodes_tier import run as run_module
from esp.simulation.nodes_tier.nemesis import draw_plan
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.run import Run
from esp.simulation.seeds import run_seed

RUNS = ((4, 1), (15, 3))
DIGESTS = f"from esp.simulation.seeds import run_seed; print([run_seed(s, node_count=n).digest for s, n in {RUNS}])"


def digests_with(hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", DIGESTS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_seed_gives_one_trace_whatever_strings_hash_to():
    assert len({digests_with(hash_seed) for hash_seed in (0, 1, 12345)}) == 1


def test_a_reader_of_the_trace_changes_nothing():
    lines = []
    assert run_seed(4, node_count=1, keep=lines.append).digest == run_seed(4, node_count=1).digest
    assert any("serves" in line for line in lines)


def test_a_part_of_the_plan_can_be_run_alone():
    profile = Profile.draw(3, node_count=1)
    whole = draw_plan(profile)
    part = Run(profile, only=[0, 2])
    assert part.plan == [whole[0], whole[2]]
    assert part.execute().faults <= 2
    assert run_seed(3, node_count=1, only=[]).faults == 0


def test_administrators_change_members_and_topics_while_records_flow():
    profile = Profile.draw(14)
    assert profile.layout.changes_voters
    outcome = Run(dataclasses.replace(profile, fault_means_s={}, chaos_s=40.0)).execute()
    assert outcome.violation is None
    assert {"voter added", "voter removed", "topic created", "topic deleted", "setting changed"} <= {
        *outcome.administered
    }


def test_what_is_wrong_with_a_process_that_ended_counts_unless_it_ended_within_a_step_of_its_own():
    run = Run(Profile.draw(5, node_count=1))

    def look(_node):
        raise ViolationError("INV-ORDER", "node 1", "the files do not hold it")

    run._replicas = SimpleNamespace(look=look)
    process, node = run._world.loop.new_process("node 1"), run._world.nodes[1]
    with tallied() as excuses:
        process.context.run(run._look_at_last_turn, node, process)
    assert excuses == {"unfinished_steps": 1}
    assert run._found is None
    with tallied() as excuses:
        run._look_at_last_turn(node, process)
    run._world.loop.close()
    assert not excuses
    assert run._found.invariant == "INV-ORDER"


@pytest.mark.parametrize(
    ("was_faulty", "left_in", "noted"),
    [(False, "/b", None), (True, "/a", None), (True, "/b", {"unpurged_trash": 1}), (True, "/c", {}), (False, "/c", {})],
)
def test_what_is_left_of_purged_topics_is_excused_only_where_the_directory_is_offline(
    monkeypatch, was_faulty, left_in, noted
):
    monkeypatch.setattr(probe, "online_directories", lambda _node: ["/a"])
    monkeypatch.setattr(run_module, "find_left", lambda _disk, directories, _known: left_in in directories)
    node = SimpleNamespace(
        name="node 1", disk=None, disk_was_faulty=was_faulty, settings=SimpleNamespace(log_dirs=("/a", "/b"))
    )
    with tallied() as excuses, nullcontext() if noted is not None else pytest.raises(ViolationError, match="INV-TRASH"):
        run_module._check_purged(node, ())
    assert excuses == (noted or {})


def test_a_node_that_loses_what_it_acknowledged_is_found_out():
    profile = dataclasses.replace(Profile.draw(5, node_count=1), fault_means_s={}, chaos_s=5.0)
    run = Run(profile)
    world = run._world
    world.loop.call_later(3.0, lambda: _forget_everything(world.nodes[1]))
    outcome = run.execute()
    assert outcome.invariant == "INV-NO-TRUNC-BELOW-HW"


@pytest.mark.parametrize(
    ("is_healed", "administrator_is_done", "gives_up"),
    [(False, False, False), (True, False, False), (True, True, True)],
)
def test_a_topic_in_the_trash_is_given_up_when_no_administrator_can_restore_it_any_more(
    is_healed, administrator_is_done, gives_up
):
    topic_id = TopicId(UUID(int=7))
    given_up = []
    producer = SimpleNamespace(lanes={(topic_id, 0): None}, give_up=lambda *place: given_up.append(place))
    run = SimpleNamespace(
        _metadata=SimpleNamespace(image=SimpleNamespace(topics_by_id={}, trashed_topics={topic_id: None})),
        _clients=SimpleNamespace(producers=[producer]),
        _replicas=SimpleNamespace(is_given_up=lambda _key: False),
        _administration=[SimpleNamespace(done=lambda: administrator_is_done)],
        _is_healed=is_healed,
        _core_is_up=lambda: False,
    )
    Run._begin_topics(run)
    assert given_up == ([(topic_id, 0)] if gives_up else [])


def _forget_everything(node):
    hosted = next(iter(node.broker.broker.running.replicas))
    hosted.log.truncate_fully_and_start_at(0)
