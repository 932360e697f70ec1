import asyncio
from collections.abc import Callable

from esp.broker.authentication.password_checks import PasswordChecks


class PlayedCpu:
    """Runs a function when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def run(self, function: Callable[[], str]) -> bool:
        name = function()
        self.begun.append(name)
        await self.gates.setdefault(name, asyncio.Event()).wait()
        return name.endswith("right")

    def end(self, name: str) -> None:
        self.gates[name].set()


def wanted() -> bool:
    return True


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(scenario: Callable[..., object]) -> Callable[[], None]:
    def test() -> None:
        async def body() -> None:
            cpu = PlayedCpu()
            checks = PasswordChecks(cpu, 1)

            def check(host: str, name: str, is_wanted: Callable[[], bool] = wanted) -> "asyncio.Task[bool]":
                return asyncio.ensure_future(checks.run(host, lambda: name, is_wanted))

            await scenario(cpu, check)
            assert checks._free == 1
            assert not checks._waiting

        asyncio.run(body())

    return test


@play
async def test_results_are_returned(cpu, check):
    right, wrong = check("a", "1 right"), check("b", "2 wrong")
    await settle()
    cpu.end("1 right")
    await settle()
    cpu.end("2 wrong")
    assert await right
    assert not await wrong


@play
async def test_addresses_take_turns(cpu, check):
    tasks = [check("flood", f"flood {number}") for number in range(4)] + [
        check("honest", "honest"),
        check("other", "other"),
    ]
    for _ in tasks:
        await settle()
        cpu.end(cpu.begun[-1])
    await asyncio.gather(*tasks)
    assert cpu.begun == ["flood 0", "flood 1", "honest", "other", "flood 2", "flood 3"]


@play
async def test_check_of_a_connection_that_has_ended_is_not_made(cpu, check):
    first, gone, last = check("a", "first"), check("a", "gone", lambda: False), check("a", "last right")
    await settle()
    cpu.end("first")
    await settle()
    cpu.end("last right")
    assert not await gone
    assert await last
    assert not await first
    assert cpu.begun == ["first", "last right"]


@play
async def test_check_that_is_cancelled_gives_its_turn_to_the_next(cpu, check):
    tasks = [check("a", "first"), check("a", "second"), check("a", "third")]
    await settle()
    tasks[1].cancel()
    await settle()
    tasks[0].cancel()
    await settle()
    assert cpu.begun == ["first", "third"]
    cpu.end("third")
    await asyncio.gather(*tasks, return_exceptions=True)


@play
async def test_check_that_is_cancelled_when_its_turn_has_come_gives_it_on(cpu, check):
    tasks = [check("a", "first"), check("a", "second"), check("a", "third")]
    await settle()
    cpu.end("first")
    await asyncio.sleep(0)
    tasks[1].cancel()
    await settle()
    for name in cpu.begun:
        cpu.end(name)
    await settle()
    for name in cpu.begun:
        cpu.end(name)
    await asyncio.gather(*tasks, return_exceptions=True)
