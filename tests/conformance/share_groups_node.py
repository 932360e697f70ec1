"""A node of a release that offers share groups, which the present one does not, in a process of its own."""

from collections.abc import Sequence
from typing import Final

from esp.testing.node import Node

FORMAT_OPTIONS: Final = ("--feature", "share.version=1")
"""The options of ``esp format`` for a cluster that has share groups."""

_PROGRAM: Final = """
import sys
from esp.controller import features
features.SUPPORTED_FEATURES = {**features.SUPPORTED_FEATURES, "share.version": features.FeatureRange(0, 1)}
from esp.__main__ import main
sys.exit(main())
"""


class NodeWithShareGroups(Node):
    """Supports ``share.version`` 1."""

    PROGRAM: Sequence[str] = ("-c", _PROGRAM)


class NodeWithDeadLetters(NodeWithShareGroups):
    """Supports ``share.version`` 2."""

    PROGRAM: Sequence[str] = ("-c", _PROGRAM.replace("FeatureRange(0, 1)", "FeatureRange(0, 2)"))


LETTERS_FORMAT_OPTIONS: Final = ("--feature", "share.version=2")
"""The options of ``esp format`` for a cluster whose share groups have dead letters."""
