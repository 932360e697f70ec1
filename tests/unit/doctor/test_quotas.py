"""Quotas that no batch fits into."""

from esp.doctor.rule import Severity
from esp.doctor.rules import RULES
from esp.model.client_quotas import client_alone, user_and_client
from tests.unit.doctor.snapshots import hits, snapshot


def test_a_quota_below_a_batch_comes_with_the_wait_and_the_command_that_removes_it():
    quotas = {
        client_alone("c"): {"producer_byte_rate": 7.0, "request_percentage": 1.0},
        user_and_client("u", None): {"consumer_byte_rate": 409.0},
        client_alone(None): {"producer_byte_rate": 410.0},
    }
    first, second = hits("quota-below-a-batch", snapshot(1, [], client_quotas=quotas))
    assert str(first.place) == "client client-id=c"
    assert first.detail == "producer_byte_rate is 7: after a batch of 16384 bytes the connection waits for 2331 s"
    assert first.remedy == "`esp quotas remove --client-id c producer_byte_rate`"
    assert second.remedy == "`esp quotas remove --client-id-default --user u consumer_byte_rate`"
    assert RULES["quota-below-a-batch"].severity is Severity.WARNING
