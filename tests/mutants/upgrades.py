"""Bugs of rolling upgrades: nodes of two releases, and levels of features that some of them do not support."""

from typing import Final

from tests.mutants.mutant import UPGRADED_BROKERS, Mutant

UPGRADE_MUTANTS: Final = (
    Mutant(
        "older-release-is-registered",
        "KIP-584 broken",
        "KIP-584",
        "esp.controller.brokers",
        "    _require_features(image, registration.features)\n",
        "",
        kind=UPGRADED_BROKERS,
    ),
    Mutant(
        "level-is-above-older-nodes",
        "KIP-584 broken",
        "KIP-584",
        "esp.controller.feature_updates",
        "    for who, features in _nodes(image, authority):\n",
        "    for who, features in list(_nodes(image, authority))[:1]:\n",
    ),
    Mutant(
        "level-falls",
        "KIP-584 broken",
        "KIP-584",
        "esp.controller.feature_updates",
        "    if level < present:\n",
        "    if level < present and upgrade_type == UpgradeType.UPGRADE:\n",
    ),
    Mutant(
        "older-controller-goes-on",
        "KIP-584 broken",
        "KIP-584",
        "esp.broker.controller_role",
        "find_unsupported(image.features, features)",
        "find_unsupported({}, features)",
    ),
)
