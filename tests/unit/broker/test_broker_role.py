"""What a broker waits for before it serves."""

import dataclasses

from esp.broker.broker_role import _is_unfenced
from esp.controller.image import EMPTY_IMAGE
from esp.model.ids import NodeId
from tests.unit.controller.samples import Cluster


def test_a_broker_that_was_taken_off_the_books_while_it_starts_waits_until_it_is_registered_anew() -> None:
    brokers = Cluster(brokers=1).image.brokers
    ((node_id, broker),) = brokers.items()
    assert not _is_unfenced(EMPTY_IMAGE, NodeId(node_id))
    for is_fenced in (True, False):
        image = dataclasses.replace(EMPTY_IMAGE, brokers={node_id: dataclasses.replace(broker, fenced=is_fenced)})
        assert _is_unfenced(image, NodeId(node_id)) is not is_fenced
