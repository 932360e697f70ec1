from datetime import timedelta

from esp.broker.answer_fields import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS, broker_ids, told_duration
from esp.model.ids import NodeId


def test_all_operations_are_kafkas_codes_for_each_kind_of_resource():
    assert ALL_TOPIC_OPERATIONS == 3576
    assert ALL_CLUSTER_OPERATIONS == 8096


def test_node_ids_keep_their_order():
    assert broker_ids([NodeId(3), NodeId(1)]) == (3, 1)


def test_a_duration_is_told_up_to_24_days():
    """Dead letters may fail for months, and a throttle time is as long as a quota is small."""
    assert told_duration(timedelta(days=24)) == timedelta(days=24)
    assert told_duration(timedelta(days=60)) == timedelta(milliseconds=2**31 - 1)
