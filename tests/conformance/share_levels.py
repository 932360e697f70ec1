"""Options of ``esp format`` for clusters that have share groups: new ones have none."""

from typing import Final

SHARE_GROUPS: Final = ("--feature", "share.version=1")
DEAD_LETTERS: Final = ("--feature", "share.version=2")
"""Share groups with dead letters."""
