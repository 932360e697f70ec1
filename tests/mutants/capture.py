"""Bugs of captures: each makes a record stand in no file, or in two, when a runner dies or two run at once. A named test catches each."""

from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.security import TEST, SecurityMutant

_MODEL: Final = "tests/unit/capture/test_claim.py::test_each_record_is_in_one_file_whatever_dies"
_UNKNOWN: Final = (
    "tests/unit/capture/test_claim.py::test_a_committed_file_of_a_partition_that_a_takeover_does_not_know_gets_its_name"
)
_TABLE_ONCE: Final = "tests/unit/capture/test_tables.py::test_what_older_runners_have_left_is_added_once"
_DOUBT: Final = "tests/unit/capture/test_partition_capture.py::test_a_file_whose_commit_is_in_doubt_is_left_to_the_runner_that_took_over"


def _bug(name: str, bug: str, test: str, module: str, text: str, replacement: str) -> SecurityMutant:
    return SecurityMutant(Mutant(name, bug, "CAPTURE", module, text, replacement, tiers=(TEST,)), test)


CAPTURE_MUTANTS: Final = (
    _bug(
        "files-get-names-before-the-commit",
        "publish before commit",
        _MODEL,
        "esp.capture.claim",
        "        self._change({partition: wanted})\n        self._finish(wanted)\n",
        "        self._finish(wanted)\n        self._change({partition: wanted})\n",
    ),
    _bug(
        "captures-look-before-the-epoch",
        "no InitProducerId before the look",
        _MODEL,
        "esp.capture.claim",
        "        def attempt(deadline: Deadline) -> dict[Partition, Position]:\n"
        "            found = self._ledger.look([*self._positions, *partitions], deadline)\n",
        "        found = self._ledger.look([*self._positions, *partitions], Deadline(60.0))\n\n"
        "        def attempt(deadline: Deadline) -> dict[Partition, Position]:\n",
    ),
    _bug(
        "work-files-are-listed-after-the-takeover",
        "a newer runner's file is removed",
        _MODEL,
        "esp.capture.claim",
        "        left = self._store.list_work()  # before an epoch begins: a newer runner's files are not among them\n"
        "        self._begin(partitions)\n",
        "        self._begin(partitions)\n        left = self._store.list_work()\n",
    ),
    _bug(
        "takeovers-remove-files-of-partitions-that-they-do-not-know",
        "a file that is committed and has no name is removed",
        _UNKNOWN,
        "esp.capture.claim",
        "            if path not in kept and (partition is None or partition in self._positions):\n",
        "            if path not in kept:\n",
    ),
    _bug(
        "directories-that-another-start-began-are-refused",
        "of two first starts one is refused",
        _MODEL,
        "esp.capture.claim",
        "                    owner = self._store.read_owner()  # again: another runner may have begun the capture between\n",
        "",
    ),
    _bug(
        "commits-in-doubt-are-repeated",
        "an overtaken runner commits",
        _MODEL,
        "esp.capture.claim",
        "            if next(tries):\n",
        "            if next(tries) < 0:\n",
    ),
    _bug(
        "commits-in-doubt-look-at-their-partition-alone",
        "a runner that was overtaken before a topic grew commits",
        _MODEL,
        "esp.capture.claim",
        "                found = self._ledger.look([*after], deadline)\n"
        "                if decide_doubt(self._positions, after, found) is Doubt.COMMITTED:\n",
        "                found = self._ledger.look([*wanted], deadline)\n"
        "                if decide_doubt({each: self._positions[each] for each in wanted}, wanted, found) is Doubt.COMMITTED:\n",
    ),
    _bug(
        "new-partitions-are-looked-at-alone",
        "a runner that was overtaken before a topic grew commits",
        _MODEL,
        "esp.capture.claim",
        "            decide_doubt(self._positions, self._positions, found)\n",
        "",
    ),
    _bug(
        "runners-go-on-after-a-commit-that-failed",
        "an overtaken runner commits",
        _MODEL,
        "esp.capture.claim",
        "        if self._is_over:\n",
        "        if self._is_over and not self._positions:\n",
    ),
    _bug(
        "tables-are-not-looked-at",
        "a file is added to its table again",
        _TABLE_ONCE,
        "esp.capture.tables",
        "files_to_add(names, log.ends(self._capture, partitions))",
        "files_to_add(names, {})",
    ),
    _bug(
        "tables-say-nothing-of-what-they-have",
        "a commit without its application transactions",
        _TABLE_ONCE,
        "esp.capture.delta_log",
        "Transaction(application_of(capture, partition), end) for partition, end in sorted(ends.items())",
        "Transaction(application_of(capture, partition), end) for partition, end in sorted(ends.items())[:0]",
    ),
    _bug(
        "tables-lack-what-dead-runners-left",
        "a start adds its own files only",
        _TABLE_ONCE,
        "esp.capture.tables",
        "        self._new += [name for topic in topics for name in self._directory.names_of(topic)]\n",
        "",
    ),
    _bug(
        "files-in-doubt-are-removed",
        "a committed file is removed",
        _DOUBT,
        "esp.capture.partition_capture",
        "        self._file = self._writer = None\n        name = FileName(self.partition, self.first, self._end, file.day)\n"
        "        self._commit(self.partition, self._end, writer.work, name.path)\n",
        "        name = FileName(self.partition, self.first, self._end, file.day)\n"
        "        self._commit(self.partition, self._end, writer.work, name.path)\n        self._file = self._writer = None\n",
    ),
)
