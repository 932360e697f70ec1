"""Prints where answers of a node and of Apache Kafka differ: ``python -m tests.conformance.comparer [API ...]``.

Differences that docs/PROTOCOL.md gives a reason for are counted only, unless ``--all`` is given. Exit status 1 if there are others.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.comparer import migrating
from tests.conformance.comparer.case import Case
from tests.conformance.comparer.compare import compare, play, plays_of
from tests.conformance.comparer.known import AT_LEVEL_1, WITHOUT_RIGHTS, Known
from tests.conformance.comparer.pair import running_guarded_pair, running_pair
from tests.conformance.comparer.rights import (
    ALL,
    RIGHTS,
    compare_rules,
    compare_without,
    compare_without_any,
    set_rights,
)
from tests.conformance.comparer.setup import prepare
from tests.conformance.comparer.table import CASES
from tests.conformance.comparer.transactions.table import SCENES
from tests.conformance.comparer.transactions.table import prepare as prepare_scenes


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("apis", nargs="*", help="APIs to compare; all if none is given")
    parser.add_argument("--all", action="store_true", help="show known differences too")
    parser.add_argument("--rights", action="store_true", help="compare what clients without permissions are answered")
    parser.add_argument("--transaction-version", type=int, choices=(1, 2), help="the level of both clusters")
    arguments = parser.parse_args()
    cases = [case for case in CASES if not arguments.apis or case.api_name in arguments.apis]
    if arguments.rights:
        return _compare_rights(cases, shows_all=arguments.all)
    scenes = (*SCENES, *migrating.SCENES)
    plays = plays_of(scene for scene in scenes if not arguments.apis or scene.label in arguments.apis)
    known, level = Known.read(), arguments.transaction_version
    also_known = Known.read(title=AT_LEVEL_1) if level == 1 else Known([])
    shown = counted = 0
    with (
        tempfile.TemporaryDirectory() as directory,
        running_pair(Path(directory), transaction_version=level) as (ours, theirs),
    ):
        for target in (ours, theirs):
            prepare(target)
        prepare_scenes((ours, theirs), plays)
        for difference in itertools.chain(compare(ours, theirs, cases), play(ours, theirs, plays)):
            is_known = known.explains(difference) or also_known.explains(difference)
            counted += is_known
            if arguments.all or not is_known:
                shown += not is_known
                sys.stdout.write(f"{'known: ' if is_known else ''}{difference}\n")
    requests = sum(len(case.versions) for case in cases) + len(plays)
    sys.stdout.write(f"{requests} requests, {shown} differences and {counted} known ones\n")
    return 1 if shown else 0


def _compare_rights(cases: Sequence[Case], *, shows_all: bool) -> int:
    known, also_known = Known.read(), Known.read(title=WITHOUT_RIGHTS)
    shown = 0
    with tempfile.TemporaryDirectory() as directory, running_guarded_pair(Path(directory)) as (ours, theirs):
        for target in (ours, theirs):
            set_rights(target, ALL, ())
            prepare(target)
        without_any = compare_without_any(ours, theirs, cases)
        about_rules = compare_rules(ours, theirs)
        for difference in itertools.chain(without_any, compare_without(ours, theirs, cases, RIGHTS), about_rules):
            is_known = known.explains(difference) or also_known.explains(difference)
            if shows_all or not is_known:
                shown += not is_known
                sys.stdout.write(f"{'known: ' if is_known else ''}{difference}\n")
    sys.stdout.write(f"{len(cases)} requests, {shown} differences\n")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
