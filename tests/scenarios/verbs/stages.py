"""Which stage the scripts of an area are played on."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.scenarios.script import Stage
from tests.scenarios.verbs.groups import GroupStage
from tests.scenarios.verbs.partition import PartitionStage
from tests.scenarios.verbs.quorum import QuorumStage

STAGES: Final[Mapping[str, Callable[[], Stage]]] = {
    "group": GroupStage,
    "isr": PartitionStage,
    "leader": PartitionStage,
    "quorum": QuorumStage,
    "reassignment": PartitionStage,
}
