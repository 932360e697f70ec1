"""The timestamps of single records."""

import time
from collections.abc import Mapping

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.client import LOOK_TIMEOUT_S, connect, told_to_the_operator
from esp.cli.kafka.library import KafkaConsumer, TopicPartition


def read_times(servers: str, offsets: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
    """Return the timestamp of the first record from an offset of each partition on, in milliseconds since the Unix epoch.

    A partition is missing if no record of it has come in a few seconds: its leader is away, or what follows is not committed.

    Args:
        servers: bootstrap servers.
        offsets: by partition; each lies within what the partition holds.

    Raises:
        OperatorError: no broker answers.
    """
    if not offsets:
        return {}
    found: dict[PartitionId, int] = {}
    end_s = time.monotonic() + LOOK_TIMEOUT_S
    with told_to_the_operator(servers):
        client = connect(KafkaConsumer, servers, group_id=None, enable_auto_commit=False, max_partition_fetch_bytes=1)
        try:
            client.assign([TopicPartition(*each) for each in offsets])
            for each, offset in offsets.items():
                client.seek(TopicPartition(*each), offset)
            while len(found) < len(offsets) and (left_s := end_s - time.monotonic()) > 0:
                for each, records in client.poll(left_s * 1000).items():
                    found.setdefault(PartitionId(*each), records[0].timestamp)
                    client.pause(each)
        finally:
            client.close()
    return found
