"""All mutants by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from esp.simulation.mutants.controller import CONTROLLER_MUTANTS
from esp.simulation.mutants.divergence import DIVERGENCE_MUTANTS
from esp.simulation.mutants.groups import GROUP_MUTANTS
from esp.simulation.mutants.histories import HISTORY_MUTANTS
from esp.simulation.mutants.losses import LOSS_MUTANTS
from esp.simulation.mutants.lost_files import LOST_FILES_MUTANTS
from esp.simulation.mutants.membership import MEMBERSHIP_MUTANTS
from esp.simulation.mutants.mutant import Mutant
from esp.simulation.mutants.overlap import OVERLAP_MUTANTS
from esp.simulation.mutants.produce import PRODUCE_MUTANTS
from esp.simulation.mutants.quorum import QUORUM_MUTANTS
from esp.simulation.mutants.reassignment import REASSIGNMENT_MUTANTS
from esp.simulation.mutants.repair import REPAIR_MUTANTS
from esp.simulation.mutants.replication import REPLICATION_MUTANTS
from esp.simulation.mutants.rot import ROT_MUTANTS
from esp.simulation.mutants.storage import STORAGE_MUTANTS
from esp.simulation.mutants.throttles import THROTTLE_MUTANTS
from esp.simulation.mutants.wire import WIRE_MUTANTS

ALL: Final = (
    *DIVERGENCE_MUTANTS,
    *REPLICATION_MUTANTS,
    *QUORUM_MUTANTS,
    *PRODUCE_MUTANTS,
    *CONTROLLER_MUTANTS,
    *STORAGE_MUTANTS,
    *MEMBERSHIP_MUTANTS,
    *REASSIGNMENT_MUTANTS,
    *THROTTLE_MUTANTS,
    *REPAIR_MUTANTS,
    *GROUP_MUTANTS,
    *HISTORY_MUTANTS,
    *LOSS_MUTANTS,
    *ROT_MUTANTS,
    *OVERLAP_MUTANTS,
    *WIRE_MUTANTS,
    *LOST_FILES_MUTANTS,
)

MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType({mutant.name: mutant for mutant in ALL})
