"""Which modules are mutated: the cores, and the rooms of the broker that drive them."""

from typing import Final

from esp.simulation.coverage.functions import ROOMS
from tests.mutation.operators import Mutation, find_mutations
from tests.mutation.reach import ROOT

MODULES_BESIDE: Final = ("esp/model/partition.py",)


def all_mutations() -> list[Mutation]:
    """All that are possible, in the order of the modules' paths."""
    rooms = [ROOT / room.replace(".", "/") for room in ROOMS]
    paths = [path.relative_to(ROOT).as_posix() for room in rooms for path in sorted(room.glob("*.py"))]
    return [
        mutation
        for path in sorted((*paths, *MODULES_BESIDE))
        for mutation in find_mutations((ROOT / path).read_text(encoding="utf-8"), path)
    ]
