"""``python -m benchmarks.request_path``: what a request costs a node without sockets, and which functions cost it.

Each kind of request is given to the node again and again by a function call. The least time of many short rounds is shown: other load on
the machine only ever adds to it. This is the figure to look at while the hot path is being changed.
"""

import asyncio
import cProfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import typer
import uvloop
from kio.schema.alter_client_quotas.v1 import request as alter_client_quotas
from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.metadata.v13 import request as metadata
from kio.schema.types import TopicName
from kio.static.primitive import f64

from benchmarks.batches import PARTITIONS, AckChecker, large_batch, produce_requests, small_batch
from benchmarks.call_table import print_calls
from benchmarks.client import (
    CLIENT_ID,
    CREATE_TOPICS_VERSION,
    LIST_OFFSETS_VERSION,
    METADATA_VERSION,
    create_topic_request,
    list_offsets_request,
)
from benchmarks.consume_load import FETCH_VERSION, FetchSession
from benchmarks.in_process import DirectConnection, running_node
from benchmarks.page_cache import touch_pages
from esp.protocol.messages import encode_request
from esp.protocol.registry import ApiKey

ROUNDS: Final = 30
ROUND_S: Final = 0.03
"""Aimed at: short enough to fall between two interruptions."""

TOUCHED_BYTES: Final = 2_000_000_000
"""The most bytes that are appended."""

QUOTA_TURNS: Final = 2
"""How often the rounds are repeated without and with quotas."""

PROFILED_S: Final = 1.0
SETTLING_S: Final = 0.5
"""After a topic's creation, until the node leads its partitions."""

_SMALL: Final = "small"
_LARGE: Final = "large"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def make_requests() -> dict[str, bytes]:
    """Return a frame of each kind, by the kind's name."""
    topic = metadata.MetadataRequestTopic(topic_id=None, name=TopicName(_LARGE))
    asked = metadata.MetadataRequest(
        topics=(topic,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return {
        "produce, 1 record of 100 B": produce_requests(_SMALL, small_batch())[0],
        "produce, 1 batch of 128 KiB": produce_requests(_LARGE, large_batch())[0],
        "fetch, 4 x 1 MiB, no session": _encode(ApiKey.FETCH, FETCH_VERSION, FetchSession(_LARGE).next_request()),
        "list offsets, 4 partitions": _encode(
            ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, list_offsets_request(_LARGE, PARTITIONS)
        ),
        "metadata, 1 topic": _encode(ApiKey.METADATA, METADATA_VERSION, asked),
    }


def _quotas(*, removed: bool) -> AlterClientQuotasRequest:
    """Quotas of every client id, so large that none is throttled."""
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    entity = alter_client_quotas.EntityData(entity_type="client-id", entity_name=None)
    changes = tuple(alter_client_quotas.OpData(key=key, value=f64(1e15), remove=removed) for key in keys)
    return AlterClientQuotasRequest(
        entries=(alter_client_quotas.EntryData(entity=(entity,), ops=changes),), validate_only=False
    )


def _encode(api_key: ApiKey, version: int, message: Any) -> bytes:
    return encode_request(api_key, version, 0, CLIENT_ID, message)


class Repeater:
    """Sends one request many times.

    Args:
        connection: to the node.
        frame: the request; it is answered at once.
    """

    def __init__(self, connection: DirectConnection, frame: bytes) -> None:
        self._connection = connection
        self._frame = frame

    def run(self, count: int) -> float:
        """Return the seconds that the node spends on ``count`` requests."""
        frame = self._frame
        buffer = memoryview(bytearray(frame))
        owner = self._connection.owner
        assert owner is not None
        on_bytes: Callable[[memoryview], int] = owner.on_bytes
        clock = time.perf_counter
        spent = 0.0
        for _ in range(count):
            buffer[:] = frame  # the node stamps batches where they are
            started = clock()
            on_bytes(buffer)
            spent += clock() - started
        assert self._connection.answer, "the node has not answered at once"
        return spent


@app.command()
def main(
    only: Annotated[str, typer.Option(help="Only kinds of requests whose names contain this.")] = "",
    calls: Annotated[bool, typer.Option("--calls", help="Also show which functions are called and cost time.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Functions shown.")] = 40,
    quotas: Annotated[bool, typer.Option("--quotas", help="Also with quotas that count and never throttle.")] = False,
) -> None:
    """Time a node's request path, sockets left out."""
    uvloop.run(_run(only, calls, top, quotas=quotas))


async def _run(only: str, calls: bool, top: int, *, quotas: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="esp-request-path-") as directory:
        touch_pages(Path(directory), TOUCHED_BYTES)
        async with running_node(Path(directory, "node")) as network:
            connection = network.new_connection()
            await _fill(connection)
            for kind, frame in make_requests().items():
                if only not in kind:
                    continue
                repeater = Repeater(connection, frame)
                count = max(1, int(ROUND_S / (repeater.run(20) / 20)))
                times_us: dict[bool, list[float]] = {}
                for is_counted in (False, True) * QUOTA_TURNS if quotas else (False,):
                    if quotas:
                        await connection.ask(_encode(ApiKey.ALTER_CLIENT_QUOTAS, 1, _quotas(removed=not is_counted)))
                    repeater.run(20)  # the first one of a kind takes the ordinary way
                    for _ in range(ROUNDS):
                        times_us.setdefault(is_counted, []).append(repeater.run(count) * 1e6 / count)
                        await asyncio.sleep(0)  # what the requests left to be done later
                free_us = min(times_us[False])
                print(f"{kind:32} {free_us:8.2f} us at best, {median(times_us[False]):8.2f} us median")
                if quotas:
                    counted_us = min(times_us[True])
                    print(f"  with quotas {counted_us:28.2f} us at best, {counted_us / free_us:.3f} of that without")
                if calls:
                    _profile(repeater, count * int(PROFILED_S / ROUND_S), Path(directory, "profile"), top)


async def _fill(connection: DirectConnection) -> None:
    """Make the topics, and more in the large one than a fetch takes."""
    for name in (_SMALL, _LARGE):
        await connection.ask(
            _encode(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topic_request(name, PARTITIONS))
        )
    await asyncio.sleep(SETTLING_S)
    checker = AckChecker(_LARGE)
    for frame in produce_requests(_LARGE, large_batch()) * 16:
        checker.check(await connection.ask(frame))


def _profile(repeater: Repeater, count: int, path: Path, top: int) -> None:
    profile = cProfile.Profile()
    profile.enable()
    repeater.run(count)
    profile.disable()
    profile.dump_stats(str(path))
    print_calls(path, count, top)


if __name__ == "__main__":
    app()
