"""The repository holds itself to its rules (:mod:`tests.architecture.rules`)."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from esp.protocol.registry import SERVED, ApiKey, ListenerKind, ServedApi
from tests.architecture import rules

ROOT: Final = Path(__file__).resolve().parents[2]

CODE: Final = ("esp", "tests", "benchmarks", "tools", "pyspark_jobs")
TEXT_SUFFIXES: Final = (".py", ".md", ".txt", ".toml", ".xml", ".properties", ".json", "")
"""The suffixes of the files that are read for leftovers and paths; the last is that of Makefile, LICENSE and .ci/run."""

LONG_MODULE_LINES: Final = 800
"""Beyond it one asks whether a module is one thing. It is a hint: an answer stands in the table below."""

LONGEST_MODULES: Final[dict[str, int]] = {
    "esp/storage/log.py": 898,  # one log: the order in which its parts are written, synced and cut
}
"""The longest modules, in lines, at most ten, each with the reason why it is one thing. An entry grows only here."""

LONG_FUNCTION_LINES: Final = 60

LONGEST_FUNCTIONS: Final = {
    "esp/cli/groups/command.py:groups": 139,  # a command's options with their help, as all of esp/cli here; and its actions as words
    "esp/cli/reassign/command.py:reassign_partitions": 113,
    "esp/cli/topics.py:topics": 110,
    "esp/cli/consume.py:consume": 98,
    "esp/cli/acls/command.py:acls": 108,
    "esp/cli/capture/start.py:start": 143,
    "esp/cli/sql.py:sql": 95,
    "esp/storage/recovery.py:load_log_blocking": 89,
    "esp/controller/partition_change.py:plan_partition_change": 87,  # the rules of one decision, in their order
    "esp/cli/produce.py:produce": 73,
    "esp/cli/configs.py:configs": 68,
    "esp/cli/dump_log.py:dump_log": 67,
    "esp/simulation/nodes_tier/run.py:_outcome": 74,  # the figures of a run, one in a line
    "esp/simulation/fleet.py:lines": 70,  # those of many, likewise
    "esp/records/keyed.py:choose_records": 75,  # one pass over the bytes, without calls
}
"""The ten longest functions, in lines. An entry may shrink in silence and grow only here."""

SLEEPS: Final = {
    "tests/conformance/comparer/migrating.py": 2,  # the assignment interval has to go by
    "tests/integration/chaos.py": 1,  # a fault has to last
    "tests/integration/cluster/test_cli_produce.py": 1,  # lines are to flow for as long as the cluster changes
    "tests/integration/fuzz.py": 1,  # the calm that attacks are compared with
    "tests/integration/hostile_clients.py": 1,  # an attack that is patience
    "tests/integration/hostile_strangers.py": 3,  # others
    "tests/integration/test_bad_input.py": 1,  # each byte is to be a read of its own
    "tests/integration/test_capture.py": 1,  # a runner is killed at a moment that a seed chooses
    "tests/integration/queue_under_fire.py": 1,  # a node is gone for a time that the seed chooses
    "tests/integration/spark/sink_kills.py": 1,  # a fault comes at a moment of a batch that the seed chooses
    "tests/integration/spark/test_sources_under_load.py": 1,  # a leader is killed every five seconds
    "tests/integration/test_esp_sink.py": 1,  # a write has to take longer than the first pauses
    "tests/integration/test_restart.py": 1,  # the time that segment.ms names has to go by
    "tests/unit/runtime/test_system.py": 1,  # the real clock is to go on
}
"""How many sleeps of a file stand in no loop that asks whether it may end, and why."""


def python_files(*packages: str) -> list[Path]:
    """All modules below some packages."""
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def text_files() -> Iterator[Path]:
    """What people read: code, documents, settings."""
    yield from sorted(path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXT_SUFFIXES)
    yield ROOT / ".ci" / "run"
    for package in (*CODE, "docs"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix in TEXT_SUFFIXES and "results" not in path.parts:
                yield path


def documents() -> list[Path]:
    """All documents in Markdown, generated ones excepted."""
    return [path for path in text_files() if path.suffix == ".md"]


def named(path: Path) -> str:
    """A path as the repository's files name one another."""
    return path.relative_to(ROOT).as_posix()


def findings(paths: Iterable[Path], rule: Callable[[str], list[str]]) -> list[str]:
    """What a rule finds in files, with their names."""
    return [f"{named(path)}: {found}" for path in paths for found in rule(path.read_text(encoding="utf-8"))]


def test_every_module_says_what_it_is_for() -> None:
    assert findings(python_files("esp"), rules.find_docstring_problem) == []


def product_sources() -> dict[str, str]:
    """The text of all modules but tests, by their paths."""
    return {
        named(path): path.read_text(encoding="utf-8")
        for path in python_files(*(package for package in CODE if package != "tests"))
    }


def test_modules_grow_with_a_reason() -> None:
    assert rules.find_grown(rules.module_lengths(product_sources()), LONGEST_MODULES, hint=LONG_MODULE_LINES) == []


def test_functions_grow_with_a_reason() -> None:
    lengths = rules.function_lengths(product_sources())
    assert rules.find_grown(lengths, LONGEST_FUNCTIONS, hint=LONG_FUNCTION_LINES) == []


def test_objects_are_whole_when_they_are_made() -> None:
    assert findings(python_files("esp"), rules.find_valueless_attributes) == []


def test_secrets_are_compared_in_constant_time() -> None:
    modules = [*python_files("esp/authentication"), *(ROOT / "esp/model").glob("scram*.py")]
    assert len(modules) > 8
    assert findings(modules, rules.find_compared_secrets) == []


def test_nothing_is_left_for_later() -> None:
    assert findings(text_files(), rules.find_leftovers) == []


def test_nothing_names_a_path_of_one_machine() -> None:
    assert findings(text_files(), rules.find_home_paths) == []


def test_tests_do_not_sleep_for_luck() -> None:
    found = {named(path): rules.find_sleeps(path.read_text(encoding="utf-8")) for path in python_files("tests")}
    assert {path: sleeps for path, sleeps in found.items() if len(sleeps) > SLEEPS.get(path, 0)} == {}
    assert {path: count for path, count in SLEEPS.items() if len(found.get(path, ())) < count} == {}, "needed no more"


@pytest.mark.parametrize("document", documents(), ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    assert rules.find_broken_links(document, document.read_text(encoding="utf-8")) == []


def test_every_document_can_be_found_from_the_first_page() -> None:
    reached: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        document = left.pop()
        if document not in reached:
            reached.add(document)
            text = document.read_text(encoding="utf-8")
            left += [path for path in documents() if path.name in text and path not in reached]
    assert [named(path) for path in documents() if path not in reached] == []


def test_every_rule_that_is_cited_is_explained() -> None:
    defined = rules.defined_rules((ROOT / "docs" / "RULES.md").read_text(encoding="utf-8"))
    families = rules.rule_families(defined)
    cited = {
        rule: named(path)
        for path in text_files()
        if not path.is_relative_to(ROOT / "tests" / "architecture")
        for rule in rules.cited_rules(path.read_text(encoding="utf-8"), families)
    }
    assert {rule: path for rule, path in cited.items() if rule not in defined} == {}
    assert [rule for rule, count in defined.items() if count > 1] == []


APIS = ROOT / "esp" / "broker" / "apis"
HANDLERS = {ListenerKind.BROKER: "handle", ListenerKind.CONTROLLER: "handle_at_controller"}
HOT = {ApiKey.PRODUCE, ApiKey.FETCH}
"""APIs whose broker's handlers are objects that get bytes."""


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_every_api_has_one_module_a_handler_for_each_of_its_listeners_and_a_row_in_the_documentation(
    api: ServedApi,
) -> None:
    source = (APIS / f"{api.key.name.lower()}.py").read_text(encoding="utf-8")
    assert source.startswith(f'"""{api.name} ({int(api.key)})')
    functions = rules.function_lengths({"": source})
    handlers = {kind for kind, name in HANDLERS.items() if f":{name}" in functions}
    assert handlers | ({ListenerKind.BROKER} if api.key in HOT else set()) == api.listeners
    assert f"\n| {int(api.key)} | {api.name} |" in (ROOT / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")


def test_every_module_among_the_apis_is_that_of_a_registered_one() -> None:
    modules = {path.stem for path in python_files("esp/broker/apis")} - {"__init__", "acl_refusals", "token_requests"}
    assert modules == {api.key.name.lower() for api in SERVED.values()}
