"""The files of stopped nodes, read by Kafka's dump-log: what a program's run has left, without a complaint."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from esp.model.ids import TopicPartition
from esp.storage.checkpoints import decode_checkpoint
from esp.storage.layout import CLEANER_OFFSET_FILE
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from tests.ecosystem.stage import Outcome, Stage
from tests.integration.dump_log import dump, dumpable_files

_LOGGER: Final = logging.getLogger(__name__)

_DECODERS: Final = {
    "__transaction_state-": "--transaction-log-decoder",
    "__consumer_offsets-": "--offsets-decoder",
    "__share_group_state-": "--share-group-state-decoder",
    "__cluster_metadata-": "--cluster-metadata-decoder",
}
_PLAIN: Final = "--deep-iteration"
_FILES_A_CALL: Final = 400
"""Their names are one argument, which has at most 128 KiB on Linux."""

_ABORTED: Final = ".txnindex"
_COMPACTED: Final = "compacted log"
_LEFT_BY: Final[Mapping[str, Collection[str]]] = {
    "streams": (_COMPACTED,),
    "copiers": (_COMPACTED, _ABORTED),
    "handover": (_COMPACTED, _ABORTED),
    "spark": (_ABORTED,),
    "transactions_tool": (_ABORTED,),
}
"""What must be among the files of a program, so that dump-log is known to have read it."""


def judge_files(stage: Stage, program: str) -> Outcome:
    """Return the number of files of all nodes, which are stopped, and the complaints about them."""
    count = 0
    kinds: Counter[str] = Counter()
    violations: list[str] = []
    for number, node in stage.cluster.nodes.items():
        files = [path for metadata in (False, True) for path in dumpable_files(node.log_dirs, metadata=metadata)]
        count += len(files)
        kinds.update(path.suffix for path in files if path.stat().st_size)
        kinds[_COMPACTED] += len(compacted_logs(node))
        violations += [f"node {number}: {complaint}" for complaint in _complaints(stage.broker_tools, files)]
    _LOGGER.info("%s: files that are not empty: %s", program, dict(kinds))
    violations += [f"no {kind} was left" for kind in _LEFT_BY.get(program, ()) if not kinds[kind]]
    return Outcome(f"{program}: files read by dump-log", 0, count, violations)


def compacted_logs(node: NodeProcess) -> set[TopicPartition]:
    """Return the partitions of which the node has compacted some segments."""
    found: set[TopicPartition] = set()
    for path in (directory / CLEANER_OFFSET_FILE for directory in node.log_dirs):
        if path.exists():
            found |= {partition for partition, offset in decode_checkpoint(path.read_bytes()).items() if offset > 0}
    return found


def _complaints(tools: KafkaTools, files: Iterable[Path]) -> list[str]:
    by_option: dict[str, list[Path]] = {}
    for path in files:
        option = next((option for name, option in _DECODERS.items() if path.parent.name.startswith(name)), _PLAIN)
        by_option.setdefault(option, []).append(path)
    found = []
    for option, all_paths in by_option.items():
        for first in range(0, len(all_paths), _FILES_A_CALL):
            try:
                dump(tools, all_paths[first : first + _FILES_A_CALL], option, is_compacted=True)
            except AssertionError as error:
                found.append(f"{option}: {str(error).partition(chr(10))[0]}")
    return found
