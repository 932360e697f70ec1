import asyncio
from datetime import timedelta

import pytest

from esp.broker.groups.wire import all_answered, answered, milliseconds


def test_what_is_there_is_answered_at_once_and_the_rest_by_a_coroutine():
    async def main():
        loop = asyncio.get_running_loop()
        here, later = loop.create_future(), loop.create_future()
        here.set_result(1)
        assert answered(here, str) == "1"
        assert all_answered([here, here], sum) == 2
        assert all_answered([], sum) == 0
        one, both = answered(later, str), all_answered([later, here], sum)
        loop.call_soon(later.set_result, 2)
        assert (await one, await both) == ("2", 3)

    asyncio.run(main())


@pytest.mark.parametrize("value", [-1, 0, 1, 2**31 - 1])
def test_durations_are_whole_milliseconds(value):
    assert milliseconds(timedelta(milliseconds=value)) == value
