import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.simulated_node import model, records, simulated

TWO = {"log_dirs": ("/a", "/b"), "metadata_log_dir": "/a"}


async def describe(client, *topics, version=5, everything=False):
    types = model(ApiKey.DESCRIBE_LOG_DIRS, version)
    wanted = tuple(types.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics)
    return await client.call(ApiKey.DESCRIBE_LOG_DIRS, version, types.Request(topics=None if everything else wanted))


def sizes(result):
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
@simulated()
async def test_sizes_are_those_of_the_segments(node, version):
    client = await node.client()
    await create_topic(client, partitions=2)
    await produce(client, "t", records(b"x" * 100))
    answer = await describe(client, ("t", (0, 1, 7)), ("u", (0,)), version=version)
    (result,) = answer.results
    assert (result.error_code, result.log_dir) == (ErrorCode.none, "/data")
    assert sizes(result) == {("t", 0): node.log("t").size, ("t", 1): 0}
    assert node.log("t").size > 100
    (partition, _) = result.topics[0].partitions
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    assert result.total_bytes == (2**40 if version >= 4 else -1)
    assert result.usable_bytes == (2**40 if version >= 4 else -1)


@simulated()
async def test_null_asks_for_all_but_the_metadata(node):
    client = await node.client()
    await create_topic(client, partitions=2)
    (result,) = (await describe(client, everything=True)).results
    assert set(sizes(result)) == {("t", 0), ("t", 1)}
    (result,) = (await describe(client, ("__cluster_metadata", (0,)))).results
    assert result.topics == ()
    (result,) = (await describe(client)).results
    assert result.topics == ()


@simulated(**TWO)
async def test_every_directory_has_its_own_replicas(node):
    client = await node.client()
    await create_topic(client, partitions=4)
    answer = await describe(client, everything=True)
    assert [result.log_dir for result in answer.results] == ["/a", "/b"]
    assert [len(sizes(result)) for result in answer.results] == [2, 2]


@simulated(**TWO)
async def test_a_directory_that_failed_says_so(node):
    client = await node.client()
    await create_topic(client, partitions=2)
    directory = node.replicas.directories.all[1]
    node.replicas.directories.fail(directory, "a test wants it")
    answer = await describe(client, everything=True)
    assert [(result.log_dir, result.error_code) for result in answer.results] == [
        ("/a", ErrorCode.none),
        ("/b", ErrorCode.kafka_storage_error),
    ]
    assert answer.results[1].topics == ()


class _ChangingLogs(dict):
    """Logs of a directory of which a worker thread removes one while they are looked at."""

    def items(self):
        for item in super().items():
            self.pop(next(reversed(self)), None)
            yield item


@simulated()
async def test_logs_may_come_and_go_while_they_are_described(node):
    client = await node.client()
    await create_topic(client, partitions=3)
    [directory] = node.replicas.directories.all
    directory.logs = _ChangingLogs(directory.logs)
    [result] = (await describe(client, everything=True)).results
    assert sum(len(topic.partitions) for topic in result.topics) == 3
