"""What administrators do by what they see."""

from random import Random
from types import SimpleNamespace

from esp.controller.image import TopicImage
from esp.model.errors import ErrorCode
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.admin import MIN_ISR, MINIMUMS, Administrator
from tests.unit.simulation.workload.scripted import new_history
from tests.unit.storage.helpers import TOPIC_ID

ELIGIBLE = TopicImage("passing-1", TOPIC_ID, (), {MIN_ISR: "2"})


def changed_minimums(eligible):
    """What minimums topics got of an administrator who does forty things."""
    asked = []

    async def call(_key, _version, request, _timeout_s):
        for resource in getattr(request, "resources", ()):
            asked.extend((resource.resource_name, config.name, config.value) for config in resource.configs)
        answer = SimpleNamespace(error_code=ErrorCode.none, topic_id=None)
        answer.topics = answer.responses = [answer]
        answer.replica_election_results = []
        return answer

    async def any_broker():
        return SimpleNamespace(call=call)

    administrator = Administrator(
        SimpleNamespace(name="administrator", any_broker=any_broker),
        Random(1),
        new_history(),
        replicas_max=3,
        find_dead=lambda: None,
        find_eligible=lambda: eligible,
        forgetting=Random(2),
        nudges=SimpleNamespace(find_leaderless=lambda: None),
        recreating=Random(3),
        restoring=Random(3),
        bounding=Random(3),
        mixing=Random(2),
        holding=Random(2),
        holders=(),
    )

    async def act():
        for _ in range(40):
            await administrator._act("passing-0", creates=False)

    SimulatedLoop().run(act())
    return {(topic, value) for topic, name, value in asked if name == MIN_ISR}


def test_somebody_who_is_eligible_is_made_to_be_forgotten_by_another_minimum():
    changed = changed_minimums(ELIGIBLE)
    assert {value for topic, value in changed if topic == ELIGIBLE.name} == {"1", "3"}
    assert any(topic == "passing-0" for topic, _ in changed)


def test_nobody_is_forgotten_where_nobody_is_eligible():
    assert {topic for topic, _ in changed_minimums(None)} == {"passing-0"}
    assert {value for _, value in changed_minimums(None)} <= {*MINIMUMS}
