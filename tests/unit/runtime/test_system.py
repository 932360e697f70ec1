"""The small real bodies: clock, threads, host, randomness, and all of them together."""

import asyncio
import resource
import subprocess
import sys
import threading
import time
import uuid

import pytest

from esp.model.ids import uuid_to_base64
from esp.runtime import env as system_random
from esp.runtime.env import DESCRIPTORS, EXIT_STATUS, SystemClock, SystemHost, SystemRandom, ThreadCpu, real_env


def test_clock_counts_microseconds_and_the_wall_milliseconds() -> None:
    clock = SystemClock()
    before = clock.monotonic_us()
    time.sleep(0.002)
    assert 2000 <= clock.monotonic_us() - before < 2_000_000
    assert abs(clock.wall_ms() - time.time() * 1000) < 1000


async def test_timer_runs_once_after_its_delay_unless_cancelled() -> None:
    clock = SystemClock()
    ran: list[str] = []
    start = clock.monotonic_us()
    clock.call_later_us(1000, lambda: ran.append("kept"))
    clock.call_later_us(1000, lambda: ran.append("cancelled")).cancel()
    await clock.sleep_us(5000)
    assert clock.monotonic_us() - start >= 5000
    assert ran == ["kept"]


async def test_cpu_work_leaves_the_loop_and_brings_its_result_or_error() -> None:
    cpu = ThreadCpu()

    def work(base: int, *, times: int) -> tuple[int, int]:
        return base * times, threading.get_ident()

    result, thread = await cpu.run(work, 3, times=4)
    assert result == 12
    assert thread != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await cpu.run(lambda: 1 // 0)


def test_memory_for_work_is_zero_and_may_be_large() -> None:
    memory = ThreadCpu().allocate(64 * 1024 * 1024)
    assert len(memory) == 64 * 1024 * 1024
    assert memory[-1] == 0
    memory[-1] = 7
    assert memory[-1] == 7


async def test_loop_goes_on_while_cpu_works() -> None:
    cpu = ThreadCpu(threads=1)
    go = threading.Event()
    waiting = asyncio.create_task(cpu.run(go.wait, 10))
    await asyncio.sleep(0)
    go.set()
    assert await waiting


def test_random_numbers_stay_below_their_limit_and_reach_all_values() -> None:
    random = SystemRandom()
    assert {random.below(3) for _ in range(200)} == {0, 1, 2}


def test_uuid_never_looks_like_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    flag, plain = uuid.UUID("f8000000-0000-4000-8000-000000000000"), uuid.UUID("fc000000-0000-4000-8000-000000000000")
    assert uuid_to_base64(flag).startswith("-")
    drawn = iter([flag, flag, plain])
    monkeypatch.setattr(system_random.uuid, "uuid4", lambda: next(drawn))
    assert SystemRandom().uuid() == plain


def test_uuids_are_random() -> None:
    random = SystemRandom()
    values = {random.uuid() for _ in range(1000)}
    assert len(values) == 1000
    assert {value.version for value in values} == {4}


def test_host_has_a_name_and_a_boot_id_that_lasts() -> None:
    assert SystemHost().boot_id == SystemHost().boot_id != ""
    assert SystemHost().name


def test_fatal_ends_the_process_at_once_and_says_why() -> None:
    code = (
        "import atexit, logging; from esp.runtime.env import SystemHost\n"
        "logging.basicConfig(); atexit.register(print, 'orderly end')\n"
        "try:\n    1 // 0\nexcept ZeroDivisionError:\n    SystemHost().fatal('cannot go on')\nfinally:\n    print('finally')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == EXIT_STATUS
    assert "cannot go on" in ended.stderr
    assert "ZeroDivisionError" in ended.stderr
    assert ended.stdout == ""


def test_real_env_takes_all_open_files_that_the_system_grants() -> None:
    code = (
        "import resource\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, hard), hard))\n"
        "from esp.runtime.env import real_env\n"
        "env = real_env()\n"
        "env.maybe('anything')\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_real_env_is_complete() -> None:
    env = real_env()
    assert env.clock.wall_ms() > 0
    assert env.disk.exists("/")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how large the table is")
def test_there_is_room_for_descriptors_from_the_start() -> None:
    """In a process of its own, which has no threads yet."""
    program = (
        "from esp.runtime.env import raise_open_files_limit as make_room\n"
        "make_room()\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('FDSize')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= min(DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
