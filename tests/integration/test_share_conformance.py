"""A handful of the methods of Kafka's ``ShareConsumerTest``, of different kinds; ``make share-conformance`` runs all of them."""

from collections.abc import Iterator

import pytest

from esp.testing.kafka_tools import KafkaTools, ToolsMissingError
from esp.testing.pytest_plugin import AGAINST_KAFKA, skip_or_fail
from tests.integration.share_conformance import BEYOND_PROTOCOL, TESTS_POM, Outcome, Suite, table

HANDFUL = (
    "testControlRecordsSkipped",
    "testDynamicDeliveryCountLimitDecreaseArchivesRecords",
    "testLsoMovementByRecordsDeletion",
    "testRenewAcknowledgementOnPoll",
    "testSharePartitionLagWithRejectAcknowledgement",
)
"""Transactions, a limit that changes, a log that loses its beginning, the journey to a meter of the JVM, and lags."""


@pytest.mark.kafka
@pytest.mark.timeout(600)
class TestOfKafkasMethods:
    @pytest.fixture(scope="class")
    def suite(self, kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
        try:
            tests = KafkaTools.find(TESTS_POM)
            with Suite(kafka_tools, tests, tmp_path_factory.mktemp("share")) as suite:
                yield suite
        except ToolsMissingError as error:
            skip_or_fail(str(error))

    def test_a_handful_passes(self, suite: Suite) -> None:
        """Those that are beyond the protocol come as far as in any other JVM than the broker's."""
        methods = suite.methods()
        assert len(methods) == 101
        assert set(BEYOND_PROTOCOL) <= set(methods)
        chosen = {name: methods[name] for name in HANDFUL}
        outcomes = list(suite.run(chosen, "kafka" if AGAINST_KAFKA else "esp"))
        assert sorted(outcome.method for outcome in outcomes) == sorted(HANDFUL)
        assert all(outcome.is_fine for outcome in outcomes), table({"node": outcomes})


class TestTheVerdict:
    BEYOND = "testRenewAcknowledgementOnPoll"
    AT_THE_METER = "java.lang.AssertionError\n at x.ShareConsumerTest.verifyYammerMetricCount(ShareConsumerTest.java:1)"

    def test_of_a_method_that_brokers_can_pass(self) -> None:
        assert Outcome("testHeaders").verdict == "passed"
        assert Outcome("testHeaders", 1.0, "expected: <1> but was: <0>").verdict == "FAILED"
        assert not Outcome("testHeaders", 1.0, self.AT_THE_METER).is_fine

    def test_of_a_method_that_is_listed(self) -> None:
        """It counts as fine only if it ends at what no other process has."""
        assert Outcome(self.BEYOND, 1.0, self.AT_THE_METER).verdict == "beyond"
        assert Outcome(self.BEYOND, 1.0, "expected: <1> but was: <0>").verdict == "FAILED"
        assert Outcome(self.BEYOND).verdict == "PASSED"
        assert not Outcome(self.BEYOND).is_fine

    def test_the_table_shows_products_side_by_side(self) -> None:
        failed = Outcome("testHeaders", 1.04, "why")
        shown = table({"esp": [failed, Outcome("testX", 12.0)], "kafka": [Outcome("testHeaders", 2.0)]}).splitlines()
        assert shown[1].split() == ["testHeaders", "1.0", "FAILED", "2.0", "passed"]
        assert "esp: of 2 methods 1 FAILED, 1 passed" in shown
        assert shown[-2:] == ["esp testHeaders:", "why"]

    def test_every_listed_method_has_a_reason(self) -> None:
        assert all(BEYOND_PROTOCOL.values())
