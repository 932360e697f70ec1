"""Errors that nobody handled."""

import asyncio
import errno
from typing import NoReturn

import pytest

from esp.runtime.unhandled import stop_on_unhandled_errors


class RecordingHost:
    """A host whose end is remembered instead of taken."""

    boot_id = "test"
    name = "test"

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def fatal(self, reason: str) -> NoReturn:
        self.stopped.append(reason)
        raise SystemExit(reason)


def fail(error: Exception) -> None:
    raise error


def run_callback(error: Exception) -> list[str]:
    host = RecordingHost()

    async def body() -> None:
        loop = asyncio.get_running_loop()
        stop_on_unhandled_errors(loop, host)
        loop.call_soon(fail, error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    try:
        asyncio.run(body())
    except SystemExit:
        assert host.stopped
    return host.stopped


def test_error_in_a_callback_stops_the_node(caplog: pytest.LogCaptureFixture) -> None:
    assert len(run_callback(ZeroDivisionError("our bug"))) == 1
    assert "our bug" in caplog.text


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_lack_of_resources_is_logged_and_survived(number: int, caplog: pytest.LogCaptureFixture) -> None:
    assert run_callback(OSError(number, "exhausted")) == []
    assert "exhausted" in caplog.text


def test_error_of_a_task_that_nobody_awaits_stops_the_node() -> None:
    host = RecordingHost()

    async def bug() -> None:
        raise ZeroDivisionError

    async def body() -> None:
        stop_on_unhandled_errors(asyncio.get_running_loop(), host)
        task = asyncio.create_task(bug())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(SystemExit):
            asyncio.get_running_loop().call_exception_handler({"message": "lost", "exception": task.exception()})

    asyncio.run(body())
    assert host.stopped == ["lost"]


def test_no_values_of_variables_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail_with(password: str) -> None:
        raise ZeroDivisionError(f"our bug in {len(password)} characters")

    error = None
    try:
        fail_with("sesame " * 3)
    except ZeroDivisionError as raised:
        error = raised
    assert error is not None
    assert len(run_callback(error)) == 1
    assert "our bug in 21 characters" in caplog.text
    assert "fail_with" in caplog.text
    assert "sesame sesame" not in caplog.text
