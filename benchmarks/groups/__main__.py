"""``python -m benchmarks.groups``: groups of consumers beside Apache Kafka 4.3.1, turn about, row by row."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Final

import typer

from benchmarks import command
from benchmarks.brokers import SHARED_SETTINGS, START_SCRIPT_OPTIONS, make_formatted_brokers
from benchmarks.groups.heartbeats import measure_heartbeats
from benchmarks.groups.holds import measure_holds
from benchmarks.groups.metrics import GROUP_METRICS
from benchmarks.groups.queue import measure_queue
from benchmarks.groups.stable import measure_stable
from benchmarks.groups.takeover import measure_takeover
from benchmarks.results import ESP
from benchmarks.row_by_row import Report, choose_rows
from benchmarks.stage import Extent, Stage, started

USUAL: Final = Extent()
QUICK: Final = Extent(rounds=1, warm_up_rounds=0, scale=0.01)

_AT_ONCE: Final = "stable-at-once"
_HOLDS: Final = "holds"
ROWS: Final[Mapping[str, Callable[[Stage], None]]] = {
    "heartbeats": measure_heartbeats,
    "stable": partial(measure_stable, at_once=False),
    _AT_ONCE: partial(measure_stable, at_once=True),
    "takeover": measure_takeover,
    "queue": measure_queue,
    _HOLDS: measure_holds,
}
"""The measurements, each with brokers of its own, in the order of the report."""

_OWN_ROWS: Final = frozenset((_HOLDS,))
"""The rows of what Kafka does not have."""

PLAN: Final[Mapping[str, Extent]] = {
    "heartbeats": Extent(rounds=7, warm_up_rounds=6),
    "stable": Extent(rounds=3, warm_up_rounds=2),
    _AT_ONCE: Extent(rounds=3, warm_up_rounds=2),
    "takeover": Extent(rounds=3),
    "queue": Extent(rounds=5, warm_up_rounds=6),
    _HOLDS: Extent(rounds=61, warm_up_rounds=4),
}
"""The extents of the report."""

_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {_AT_ONCE: {"group.consumer.assignment.interval.ms": "0"}}
"""The settings of a row's brokers, beside the defaults."""

NOTES: Final = (
    f"""Both brokers run with their default settings on one machine, broker and controller in one, beside the one client, a raw one of this
project. Kafka's JVM has the options of its start script:
`-Xmx1g {" ".join(START_SCRIPT_OPTIONS)}`.""",
    """CPU is that of the broker's process, all threads, from `/proc/PID/stat`. Wall-clock times depend on what else the machine did: the
load average of each row is given.""",
    "Heartbeats: 10 groups of 5 members at rest, 50 partitions, one heartbeat in flight for each member.",
    """Stable: 50 members of a new group join at once, and send a heartbeat 20 ms after each answer, until each has its 2 partitions and the
coordinator has heard of it. `group.consumer.assignment.interval.ms` is 1,000, the default, or 0 for both.""",
    """Takeover: 100,000 commits of one offset by 1,000 groups, one after the other; kill -9; from the process's start, and from its first
answer, to the answer to OffsetFetch for one of the groups.""",
    """Queue: one share consumer, one partition, batches of 144 records of 100 bytes, 500 an answer; the next ShareFetch accepts what
the last one acquired.""",
    """Holds: ESP alone, four topics of one partition turn about in short rounds: two plain ones, one with `retention.hold.groups` and a
group that commits in each round, one that was created again and goes on at the old end. 5,000 batches of 10 records, acks=all, five in
flight, then read, 4 KiB an answer. A ratio is that of CPU times within a round, in nanoseconds as the kernel's scheduler counts them; that
of the second plain topic shows how exact they are.""",
)

REPORT: Final = Report(
    stem="groups",
    title="Groups of consumers beside Apache Kafka",
    rows=ROWS,
    metrics=GROUP_METRICS,
    notes=NOTES,
    quick=QUICK,
    plan=PLAN,
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def measure_row(row: str, names: list[str], stage: Stage) -> None:
    """Measure one row with brokers that are new.

    Raises:
        NodeError: a broker did not start or stop.
        UnexpectedAnswerError: a broker refused what it was asked for.
    """
    settings = {**SHARED_SETTINGS, **_SETTINGS.get(row, {})}
    needed = [name for name in names if name == ESP or row not in _OWN_ROWS]
    with started(stage, make_formatted_brokers(needed, stage.directory, settings)):
        ROWS[row](stage)


@app.command()
def main(
    rows: Annotated[list[str] | None, command.rows_argument(ROWS)] = None,
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    only: command.Only = "",
    quick: command.Quick = False,
    planned: Annotated[bool, typer.Option("--planned", help="Each row at the extent of the report.")] = False,
    out: command.Out = command.RESULTS_DIRECTORY,
    data_dir: command.DataDir = None,
) -> None:
    """Measure what groups of consumers cost ESP and Apache Kafka. Rows that are not measured stay as the files have them."""
    names, chosen = command.chosen(only), choose_rows(rows, ROWS)
    run = REPORT.run(
        Extent(rounds=rounds, warm_up_rounds=warm_up), out, quick=quick, planned=planned, data_dir=data_dir
    )
    run.measure(chosen, lambda row, stage: measure_row(row, names, stage))


if __name__ == "__main__":
    app()
