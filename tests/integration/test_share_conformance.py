"""A handful of the methods of Kafka's ``ShareConsumerTest``, of different kinds; ``make share-conformance`` runs all of them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from esp.testing.kafka_tools import KafkaTools, ToolsMissingError
from esp.testing.node_process import NodeError
from esp.testing.pytest_plugin import AGAINST_KAFKA, skip_or_fail
from tests.integration import share_conformance
from tests.integration.share_conformance import (
    EXEMPTIONS,
    PRODUCTS,
    REMEDY,
    TESTS_POM,
    Needs,
    Outcome,
    Suite,
    table,
)

HANDFUL = (
    "testControlRecordsSkipped",
    "testDynamicDeliveryCountLimitDecreaseArchivesRecords",
    "testLsoMovementByRecordsDeletion",
    "testSharePartitionLagWithRejectAcknowledgement",
    "testRenewAcknowledgementOnPoll",
)
"""Transactions, a limit that changes, a log that loses its beginning, lags, and renewals up to a meter of the JVM."""


@pytest.fixture
def suite(kafka_tools: KafkaTools, tmp_path: Path) -> Iterator[Suite]:
    """The tests."""
    try:
        with Suite(kafka_tools, KafkaTools.find(TESTS_POM), tmp_path) as suite:
            yield suite
    except ToolsMissingError as error:
        skip_or_fail(str(error))


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_handful_of_kafkas_methods_passes(suite: Suite) -> None:
    """Those that are exempt come as far as in any other JVM than the broker's."""
    try:
        methods = suite.methods()
    except ToolsMissingError as error:
        skip_or_fail(str(error))
    assert len(methods) == 100
    assert set(EXEMPTIONS) <= set(methods)
    product = "kafka" if AGAINST_KAFKA else "esp"
    outcomes = list(suite.run({name: methods[name] for name in HANDFUL}, product))
    assert [outcome.method for outcome in outcomes] == list(HANDFUL)
    assert all(outcome.is_fine for outcome in outcomes), table({product: outcomes})


def test_cluster_that_does_not_start_ends_the_run_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What was run before is told as well."""

    def run(_methods: object, product: str) -> Iterator[Outcome]:
        yield Outcome("testHeaders", product, 6.0)
        raise NodeError("the node was not ready within 60 s")

    suite = mock.MagicMock(run=run, directory=tmp_path)
    suite.methods.return_value = {"testHeaders": Needs(1, ())}
    monkeypatch.setattr(share_conformance, "find_suite", lambda _directory: suite)
    monkeypatch.setattr(sys, "argv", ["share_conformance"])
    assert share_conformance.main() == 1
    told = capsys.readouterr().out
    assert "esp: of 1 methods 1 passed" in told
    assert told.endswith(f"a cluster of esp did not start: the node was not ready within 60 s\n{REMEDY}\n")


class TestTheVerdict:
    EXEMPT = "testRenewAcknowledgementOnPoll"
    AT_THE_METER = "java.lang.AssertionError\n at x.ShareConsumerTest.verifyYammerMetricCount(ShareConsumerTest.java:1)"

    def test_of_a_method_that_applies(self) -> None:
        assert Outcome("testHeaders").verdict == "passed"
        assert Outcome("testHeaders", "esp", 1.0, "expected: <1> but was: <0>").verdict == "FAILED"
        assert not Outcome("testHeaders", "esp", 1.0, self.AT_THE_METER).is_fine

    @pytest.mark.parametrize("product", PRODUCTS)
    def test_of_a_method_that_applies_to_no_product(self, product: str) -> None:
        """It counts as fine only if it ends where it must."""
        assert Outcome(self.EXEMPT, product, 1.0, self.AT_THE_METER).verdict == "exempt"
        assert Outcome(self.EXEMPT, product, 1.0, "expected: <1> but was: <0>").verdict == "FAILED"
        assert Outcome(self.EXEMPT, product).verdict == "PASSED"
        assert not Outcome(self.EXEMPT, product).is_fine

    def test_the_table_shows_products_side_by_side(self) -> None:
        failed = Outcome("testHeaders", "esp", 1.04, "why")
        outcomes = {"esp": [failed, Outcome("testX", "esp", 12.0)], "kafka": [Outcome("testHeaders", "kafka", 2.0)]}
        shown = table(outcomes).splitlines()
        assert shown[1].split() == ["testHeaders", "1.0", "FAILED", "2.0", "passed"]
        assert shown[2].split() == ["testX", "12.0", "passed", "-"]
        assert "esp: of 2 methods 1 FAILED, 1 passed" in shown
        assert shown[-2:] == ["esp testHeaders:", "why"]
