"""Mutations that survive, each with the reason why nobody can notice it, or nobody need."""

from collections.abc import Mapping
from typing import Final

Key = tuple[str, str, str, str, str]
"""Path, function, operator, what stands there, and what replaces it (:attr:`tests.mutation.operators.Mutation.key`)."""

EQUIVALENT: Final[Mapping[Key, str]] = {}
"""The reason of each."""
