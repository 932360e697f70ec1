"""All mutants by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.mutants.authorization import AUTHORIZATION_MUTANTS
from tests.mutants.compaction import COMPACTION_MUTANTS
from tests.mutants.consumer_groups import CONSUMER_GROUP_MUTANTS
from tests.mutants.controller import CONTROLLER_MUTANTS
from tests.mutants.credentials import CREDENTIAL_MUTANTS
from tests.mutants.deciding import DECIDING_MUTANTS
from tests.mutants.divergence import DIVERGENCE_MUTANTS
from tests.mutants.expiry import EXPIRY_MUTANTS
from tests.mutants.floors import FLOOR_MUTANTS
from tests.mutants.groups import GROUP_MUTANTS
from tests.mutants.histories import HISTORY_MUTANTS
from tests.mutants.holds import HOLD_MUTANTS
from tests.mutants.losses import LOSS_MUTANTS
from tests.mutants.lost_files import LOST_FILES_MUTANTS
from tests.mutants.membership import MEMBERSHIP_MUTANTS
from tests.mutants.moving_groups import MOVING_GROUP_MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.overlap import OVERLAP_MUTANTS
from tests.mutants.produce import PRODUCE_MUTANTS
from tests.mutants.quorum import QUORUM_MUTANTS
from tests.mutants.quotas import QUOTA_MUTANTS
from tests.mutants.reassignment import REASSIGNMENT_MUTANTS
from tests.mutants.repair import REPAIR_MUTANTS
from tests.mutants.replication import REPLICATION_MUTANTS
from tests.mutants.rot import ROT_MUTANTS
from tests.mutants.share_groups import SHARE_GROUP_MUTANTS
from tests.mutants.storage import STORAGE_MUTANTS
from tests.mutants.throttles import THROTTLE_MUTANTS
from tests.mutants.tokens import TOKEN_MUTANTS
from tests.mutants.transaction_rows import CATCHERS
from tests.mutants.transactions import TRANSACTION_MUTANTS
from tests.mutants.trash import TRASH_MUTANTS
from tests.mutants.upgrades import UPGRADE_MUTANTS
from tests.mutants.wire import WIRE_MUTANTS

ALL: Final = (
    *DIVERGENCE_MUTANTS,
    *REPLICATION_MUTANTS,
    *QUORUM_MUTANTS,
    *PRODUCE_MUTANTS,
    *CONTROLLER_MUTANTS,
    *STORAGE_MUTANTS,
    *COMPACTION_MUTANTS,
    *TRANSACTION_MUTANTS,
    *DECIDING_MUTANTS,
    *MEMBERSHIP_MUTANTS,
    *REASSIGNMENT_MUTANTS,
    *THROTTLE_MUTANTS,
    *REPAIR_MUTANTS,
    *GROUP_MUTANTS,
    *CONSUMER_GROUP_MUTANTS,
    *MOVING_GROUP_MUTANTS,
    *SHARE_GROUP_MUTANTS,
    *EXPIRY_MUTANTS,
    *HOLD_MUTANTS,
    *FLOOR_MUTANTS,
    *TRASH_MUTANTS,
    *HISTORY_MUTANTS,
    *LOSS_MUTANTS,
    *ROT_MUTANTS,
    *OVERLAP_MUTANTS,
    *WIRE_MUTANTS,
    *LOST_FILES_MUTANTS,
    *UPGRADE_MUTANTS,
    *AUTHORIZATION_MUTANTS,
    *CREDENTIAL_MUTANTS,
    *TOKEN_MUTANTS,
    *QUOTA_MUTANTS,
)

MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType(
    {mutant.name: mutant._replace(catchers=CATCHERS.get(mutant.name, mutant.catchers)) for mutant in ALL}
)
