"""``esp get-offsets``: where partitions begin and end, or where they were at a time; the flags of ``kafka-get-offsets``."""

import re
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import typer

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line, print_warning, working
from esp.model.errors import OperatorError
from esp.model.ids import INTERNAL_TOPICS

_TIMES: Final = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
_NONE: Final = -1
_NAMED: Final = 10
"""So many partitions without an answer are named."""

_PATTERN: Final = re.compile(r"(?P<topic>[^:,]*)(?::(?:(?P<one>\d+)|(?P<first>\d*)-(?P<end>\d*)|))?")


class Pattern(NamedTuple):
    """Partitions ``[first, end)`` of the topics whose whole names match; ``end`` None: all from ``first`` on."""

    topic: re.Pattern[str]
    first: int = 0
    end: int | None = None

    def matches(self, partition: PartitionId) -> bool:
        """True if the pattern covers the partition."""
        return (
            self.topic.fullmatch(partition.topic) is not None
            and self.first <= partition.partition
            and (self.end is None or partition.partition < self.end)
        )


def parse_time(text: str) -> int:
    """Read ``--time``: a word, its number, or milliseconds since the Unix epoch.

    Raises:
        OperatorError: it is none of these.
    """
    found = _TIMES.get(text.lower())
    if found is None and re.fullmatch(r"-[1-5]|\d+", text):
        found = int(text)
    if found is None:
        raise OperatorError(f"--time {text}: not a time", f"Write milliseconds since 1970, or {', '.join(_TIMES)}.")
    return found


def parse_topic(text: str | None) -> re.Pattern[str]:
    """Read a topic as Kafka's tool does: a regular expression, several with commas; nothing: every topic.

    Raises:
        OperatorError: it is none.
    """
    try:
        return re.compile("|".join(f"(?:{part.strip()})" for part in text.split(",")) if text else ".*")
    except re.error as error:
        raise OperatorError(
            f"{text}: not a regular expression: {error}", "Write a topic's name, or NAME.* for more."
        ) from error


def parse_topic_partitions(text: str) -> list[Pattern]:
    """Read ``--topic-partitions``: ``topic``, ``topic:1``, ``topic:0-3`` (without 3), ``topic:5-``, ``topic:-3``, with commas between.

    Raises:
        OperatorError: a part of it is none of these.
    """
    patterns = []
    for part in text.split(","):
        found = _PATTERN.fullmatch(part.strip())
        if found is None:
            raise OperatorError(
                f"--topic-partitions {part}: not of the form TOPIC:PARTITION or TOPIC:FIRST-END",
                "For example --topic-partitions flights:0-3,greetings",
            )
        first, end = int(found["one"] or found["first"] or 0), int(found["end"]) if found["end"] else None
        patterns.append(Pattern(parse_topic(found["topic"]), first, first + 1 if found["one"] else end))
    return patterns


def parse_partitions(text: str) -> frozenset[int]:
    """Read ``--partitions``: numbers with commas between them.

    Raises:
        OperatorError: one is no number.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise OperatorError(f"--partitions {text}: not numbers of partitions", "For example --partitions 0,1")
    return frozenset(map(int, words))


def get_offsets(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    topic: Annotated[str | None, typer.Option("--topic", metavar="REGEX", help="The topics (default: all).")] = None,
    partitions: Annotated[
        str | None, typer.Option("--partitions", metavar="0,1", help="The partitions (default: all).")
    ] = None,
    topic_partitions: Annotated[
        str | None,
        typer.Option(
            "--topic-partitions",
            metavar="TOPIC:0-3,...",
            help="Instead of both: topics, each with a partition, or a range without its end.",
        ),
    ] = None,
    time: Annotated[
        str,
        typer.Option(
            "--time",
            help="Which offset: latest, earliest, max-timestamp, earliest-local, latest-tiered, or milliseconds since 1970 for the first "
            "record from that time on.",
        ),
    ] = "latest",
    exclude_internal_topics: Annotated[
        bool, typer.Option("--exclude-internal-topics", help="Leave out internal topics.")
    ] = False,
    json: Json = False,
) -> None:
    """Print offsets of partitions, as topic:partition:offset.

    A partition without such an offset, for example without a record since --time, is omitted. One whose leader does not answer is named on
    stderr, and the exit status is 1.

    [bold]Examples[/bold]

    esp get-offsets --topic flights

    esp get-offsets --topic-partitions flights:0-2,greetings --time earliest

    esp get-offsets --topic 'flights.*' --time 1767225600000 --json
    """
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise OperatorError(
            "--topic-partitions cannot be combined with --topic or --partitions", "Give either the one or the others."
        )
    patterns = [Pattern(parse_topic(topic))] if topic_partitions is None else parse_topic_partitions(topic_partitions)
    numbers = None if partitions is None else parse_partitions(partitions)
    at = parse_time(time)
    with GroupsAdmin(bootstrap_server) as admin, working("asking the leaders"):
        there = (each for some in admin.partitions().values() for each in some)
        wanted = sorted(_chosen(there, patterns, numbers, with_internal=not exclude_internal_topics))
        if not wanted:
            raise OperatorError("there are no such partitions", "See the partitions: esp topics --describe")
        offsets, silent = admin.known_since(wanted, at)
    found = [(each, offsets[each]) for each in wanted if offsets.get(each, _NONE) >= 0]
    unknown = [each for each in wanted if each not in offsets]
    if unknown:
        named = ", ".join(f"{each.topic}:{each.partition}" for each in unknown[:_NAMED])
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        leaders = ", ".join(f"broker {leader}" if leader >= 0 else "there is none" for leader in silent)
        print_warning(f"left out, as their leaders do not answer ({leaders}): {named}{more}")
    if json:
        print_json([{**each._asdict(), "offset": offset} for each, offset in found])
    else:
        for each, offset in found:
            print_line(f"{each.topic}:{each.partition}:{offset}")
    if unknown:
        raise typer.Exit(1)


def _chosen(
    there: Iterable[PartitionId], patterns: list[Pattern], numbers: frozenset[int] | None, *, with_internal: bool
) -> Iterable[PartitionId]:
    for each in there:
        if numbers is not None and each.partition not in numbers:
            continue
        if each.topic in INTERNAL_TOPICS and not with_internal:
            continue
        if any(pattern.matches(each) for pattern in patterns):
            yield each
