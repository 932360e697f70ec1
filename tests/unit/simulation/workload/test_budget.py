"""Self-repair is held back until the faults are over and a while longer, then never again."""

import asyncio
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.budget import BUDGET, STILL_S, RepairBudget
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History

STOPS_S = 5.0


def asked_of(*answers):
    """When which value was asked for, with these answers one after another."""
    loop = SimulatedLoop()
    left = list(answers)
    asked = []

    async def call(_key, _version, request, _timeout_s):
        (resource,) = request.resources
        (config,) = resource.configs
        asked.append((loop.time(), resource.resource_name, config.name, config.value))
        answer = left.pop(0)
        if isinstance(answer, NoAnswerError):
            raise answer
        return SimpleNamespace(responses=[SimpleNamespace(error_code=answer)])

    async def any_broker():
        return SimpleNamespace(call=call)

    history = History(lambda _who, _what: None)
    budget = RepairBudget(SimpleNamespace(name="budget", any_broker=any_broker), history)

    async def main():
        loop.call_later(STOPS_S, budget.stop)
        await asyncio.wait_for(budget.run(20_000), 100)

    loop.run(main())
    assert history.done == {"repair budget set": 1}
    return asked


def test_budget_is_set_for_all_brokers_when_a_withdrawal_would_have_been_seen():
    ((at_s, *what),) = asked_of(ErrorCode.none)
    assert what == ["", BUDGET, "20000"]
    assert at_s >= STOPS_S + STILL_S


@pytest.mark.parametrize("failure", [NoAnswerError("silence"), ErrorCode.not_controller])
def test_budget_is_asked_for_until_somebody_says_that_it_is_set(failure):
    assert len(asked_of(failure, failure, ErrorCode.none)) == 3
