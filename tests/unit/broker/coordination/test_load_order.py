"""A node reads its logs one at a time: first those that are asked for, then the shortest."""

import asyncio

from esp.broker.coordination.load_order import LoadOrder


class PlayedLoad:
    """A log of some slices; ``on_slice`` is called before each."""

    def __init__(self, order, name, left, told, on_slice=lambda _load: None):
        self.name = name
        self.left = left
        self.is_awaited = False
        self._order = order
        self._told = told
        self._on_slice = on_slice

    async def run(self):
        with self._order.taking_part(self):
            await self._order.turn(self)
            while self.left:
                self._on_slice(self)
                self._told.append(self.name)
                self.left -= 1
                await asyncio.sleep(0)
                await self._order.turn(self)


def played(*loads, on_slice=lambda _loads, _load: None):
    """Run loads of names and lengths, all at once; return the names in the order of the slices."""

    async def main():
        order, told, made = LoadOrder(), [], {}
        for name, left in loads:
            made[name] = PlayedLoad(order, name, left, told, lambda load: on_slice(made, load))
        await asyncio.wait_for(asyncio.gather(*(load.run() for load in made.values())), 10)
        return "".join(told)

    return asyncio.run(main())


def test_one_is_read_at_a_time_and_the_shortest_first():
    assert played(("a", 5), ("b", 2), ("c", 3)) == "abbcccaaaa", "the first one begins when it is alone"


def test_the_one_that_is_asked_for_goes_before_shorter_ones_from_the_next_slice_on():
    def ask(loads, load):
        if load.name == "b" and load.left == 1:
            loads["a"].is_awaited = True

    assert played(("b", 2), ("a", 4), ("c", 3), on_slice=ask) == "bbaaaaccc"


def test_the_one_that_is_asked_for_stops_another_in_the_midst():
    def ask(loads, load):
        if load.name == "a" and load.left == 3:
            loads["b"].is_awaited = True

    assert played(("a", 3), ("b", 4), on_slice=ask) == "abbbbaa"


def test_one_that_waits_for_its_device_holds_no_other_up():
    async def main():
        order, told = LoadOrder(), []
        device = asyncio.get_running_loop().create_future()
        cold, other = (PlayedLoad(order, name, left, told) for name, left in (("a", 1), ("b", 2)))

        async def read_cold():
            with order.taking_part(cold):
                await order.turn(cold)
                with order.stepping_aside(cold):
                    await device
                told.append(cold.name)

        reading = asyncio.ensure_future(read_cold())
        await other.run()
        device.set_result(None)
        await reading
        return "".join(told)

    assert asyncio.run(main()) == "bba"


def test_one_that_fails_or_is_cancelled_lets_the_others_go_on():
    def fail(_loads, load):
        if load.name == "a":
            raise OSError("the device fails")

    async def main():
        order, told, made = LoadOrder(), [], {}
        for name, left in (("a", 1), ("b", 2), ("c", 3)):
            made[name] = PlayedLoad(order, name, left, told, lambda load: fail(made, load))
        tasks = [asyncio.ensure_future(load.run()) for load in made.values()]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        return "".join(told)

    assert asyncio.run(main()).endswith("ccc")
