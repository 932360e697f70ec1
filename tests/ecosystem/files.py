"""The files of stopped nodes, read by Kafka's dump-log: what a program's run has left, without a complaint."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from esp.testing.kafka_tools import KafkaTools
from tests.ecosystem.stage import Outcome, Stage
from tests.integration.dump_log import dump, dumpable_files

_DECODERS: Final = {
    "__transaction_state-": "--transaction-log-decoder",
    "__consumer_offsets-": "--offsets-decoder",
    "__share_group_state-": "--share-group-state-decoder",
    "__cluster_metadata-": "--cluster-metadata-decoder",
}
_PLAIN: Final = "--deep-iteration"


def judge_files(stage: Stage, program: str) -> Outcome:
    """Return the number of files of all nodes, which are stopped, and the complaints about them."""
    count = 0
    violations: list[str] = []
    for number, node in stage.cluster.nodes.items():
        files = [path for metadata in (False, True) for path in dumpable_files(node.log_dirs, metadata=metadata)]
        count += len(files)
        violations += [f"node {number}: {complaint}" for complaint in _complaints(stage.broker_tools, files)]
    return Outcome(f"{program}: files read by dump-log", 0, count, violations)


def _complaints(tools: KafkaTools, files: Iterable[Path]) -> list[str]:
    by_option: dict[str, list[Path]] = {}
    for path in files:
        option = next((option for name, option in _DECODERS.items() if path.parent.name.startswith(name)), _PLAIN)
        by_option.setdefault(option, []).append(path)
    found = []
    for option, paths in by_option.items():
        try:
            dump(tools, paths, option, is_compacted=True)
        except AssertionError as error:
            found.append(f"{option}: {str(error).partition(chr(10))[0]}")
    return found
