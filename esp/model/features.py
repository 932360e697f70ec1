"""The names of the features of a cluster (KIP-584, KIP-1022)."""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
"""Level 1: consumer groups whose coordinator assigns (KIP-848)."""
SHARE_VERSION: Final = "share.version"
"""Level 1: share groups (KIP-932), as new clusters have it; level 2: with dead letters (KIP-1191)."""
DEAD_LETTERS_FROM: Final = 2
"""The level of share.version from which on all nodes know the state of records whose letters are to be written."""
