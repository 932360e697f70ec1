"""Prints where answers of a node and of Apache Kafka differ: ``python -m tests.conformance.comparer [API ...]``.

Differences that docs/PROTOCOL.md gives a reason for are counted only, unless ``--all`` is given. Exit status 1 if there are others.
"""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

from tests.conformance.comparer.compare import compare, play, plays_of
from tests.conformance.comparer.known import Known
from tests.conformance.comparer.pair import running_pair
from tests.conformance.comparer.setup import prepare
from tests.conformance.comparer.table import CASES
from tests.conformance.comparer.transactions.table import SCENES
from tests.conformance.comparer.transactions.table import prepare as prepare_scenes


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("apis", nargs="*", help="APIs to compare; all if none is given")
    parser.add_argument("--all", action="store_true", help="show known differences too")
    arguments = parser.parse_args()
    cases = [case for case in CASES if not arguments.apis or case.api_name in arguments.apis]
    plays = plays_of(scene for scene in SCENES if not arguments.apis or scene.label in arguments.apis)
    known = Known.read()
    shown = counted = 0
    with tempfile.TemporaryDirectory() as directory, running_pair(Path(directory)) as (ours, theirs):
        for target in (ours, theirs):
            prepare(target)
        prepare_scenes((ours, theirs), plays)
        for difference in itertools.chain(compare(ours, theirs, cases), play(ours, theirs, plays)):
            is_known = known.explains(difference)
            counted += is_known
            if arguments.all or not is_known:
                shown += not is_known
                sys.stdout.write(f"{'known: ' if is_known else ''}{difference}\n")
    requests = sum(len(case.versions) for case in cases) + len(plays)
    sys.stdout.write(f"{requests} requests, {shown} differences and {counted} known ones\n")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
