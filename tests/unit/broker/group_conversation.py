"""What tests of groups ask of a node over the wire, in one line each."""

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import ms
from tests.unit.broker.simulated_node import model

BY_ID_FROM = 10


async def find_coordinator(client, *keys, key_type=0, version=6):
    types = model(ApiKey.FIND_COORDINATOR, version)
    if version < 4:
        kind = {"key_type": key_type} if version else {}
        return await client.call(ApiKey.FIND_COORDINATOR, version, types.Request(key=keys[0], **kind))
    request = types.Request(key_type=key_type, coordinator_keys=keys)
    return (await client.call(ApiKey.FIND_COORDINATOR, version, request)).coordinators


def join_later(
    client,
    group="g",
    member_id="",
    *,
    version=9,
    instance=None,
    session_ms=10_000,
    rebalance_ms=60_000,
    protocols=(("range", b"m"),),
    protocol_type="consumer",
):
    types = model(ApiKey.JOIN_GROUP, version)
    request = types.Request(
        group_id=group,
        session_timeout=ms(session_ms),
        rebalance_timeout=ms(rebalance_ms),
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=tuple(types.JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols),
    )
    return client.send(ApiKey.JOIN_GROUP, version, request)


async def join(client, group="g", member_id="", *, version=9, **options):
    """Join, a second time with the id that the first answer tells."""
    answer = await join_later(client, group, member_id, version=version, **options)
    if answer.error_code is ErrorCode.member_id_required:
        answer = await join_later(client, group, answer.member_id, version=version, **options)
    return answer


def sync_later(client, joined, assignments=None, *, group="g", version=5, protocol_type="consumer", instance=None):
    types = model(ApiKey.SYNC_GROUP, version)
    request = types.Request(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=joined.protocol_name,
        assignments=tuple(
            types.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ),
    )
    return client.send(ApiKey.SYNC_GROUP, version, request)


async def member(client, group="g", **options):
    """Become the only member of a group, with an assignment."""
    joined = await join(client, group, **options)
    assert joined.error_code is ErrorCode.none, joined
    synced = await sync_later(client, joined, {joined.member_id: b"all"}, group=group)
    assert synced.error_code is ErrorCode.none, synced
    return joined


async def heartbeat(client, joined, *, group="g", version=4):
    types = model(ApiKey.HEARTBEAT, version)
    request = types.Request(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id=None
    )
    return (await client.call(ApiKey.HEARTBEAT, version, request)).error_code


async def leave(client, *member_ids, group="g", version=5):
    types = model(ApiKey.LEAVE_GROUP, version)
    if version < 3:
        request = types.Request(group_id=group, member_id=member_ids[0])
    else:
        request = types.Request(
            group_id=group,
            members=tuple(types.MemberIdentity(member_id=each, group_instance_id=None) for each in member_ids),
        )
    return await client.call(ApiKey.LEAVE_GROUP, version, request)


def commit_later(client, offsets, *, group="g", version=9, joined=None, metadata="", retention_ms=-1):
    """``offsets``: by topic (its id from version 10 on) and partition."""
    types = model(ApiKey.OFFSET_COMMIT, version)
    key = "topic_id" if version >= BY_ID_FROM else "name"
    by_topic = {}
    for (topic, partition), offset in offsets.items():
        epoch = {"committed_leader_epoch": -1} if version >= 5 else {}
        by_topic.setdefault(topic, []).append(
            types.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata, **epoch
            )
        )
    more = {"retention_time": ms(retention_ms)} if version < 5 else {"group_instance_id": None}
    request = types.Request(
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id if joined else -1,
        member_id=joined.member_id if joined else "",
        topics=tuple(
            types.OffsetCommitRequestTopic(**{key: topic}, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
        **more,
    )
    return client.send(ApiKey.OFFSET_COMMIT, version, request)


async def commit(client, offsets, **options):
    """The error of each partition."""
    return errors_of(await commit_later(client, offsets, **options))


def errors_of(answer):
    return {
        (topic.topic_id if hasattr(topic, "topic_id") else topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }


def fetch_offsets_later(client, partitions, *, group="g", version=9):
    """``partitions``: of (topic, partition), or None for all."""
    types = model(ApiKey.OFFSET_FETCH, version)
    key = "topic_id" if version >= BY_ID_FROM else "name"
    kind = types.OffsetFetchRequestTopics if version >= 8 else types.OffsetFetchRequestTopic
    topics = None
    if partitions is not None:
        by_topic = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        topics = tuple(kind(**{key: topic}, partition_indexes=tuple(numbers)) for topic, numbers in by_topic.items())
    if version >= 8:
        request = types.Request(groups=(types.OffsetFetchRequestGroup(group_id=group, topics=topics),))
    else:
        request = types.Request(group_id=group, topics=topics)
    return client.send(ApiKey.OFFSET_FETCH, version, request)


async def fetch_offsets(client, partitions, *, version=9, **options):
    """Offsets by topic and partition; an error in place of an offset."""
    answer = await fetch_offsets_later(client, partitions, version=version, **options)
    group = answer.groups[0] if version >= 8 else answer
    if group.error_code is not ErrorCode.none:
        return group.error_code
    return {
        (
            topic.topic_id if version >= BY_ID_FROM else topic.name,
            partition.partition_index,
        ): partition.committed_offset if partition.error_code is ErrorCode.none else partition.error_code
        for topic in group.topics
        for partition in topic.partitions
    }


async def list_groups(client, *, version=5, **filters):
    types = model(ApiKey.LIST_GROUPS, version)
    return await client.call(ApiKey.LIST_GROUPS, version, types.Request(**{"states_filter": (), **filters}))


async def describe_group(client, group="g", *, version=6, with_operations=False):
    types = model(ApiKey.DESCRIBE_GROUPS, version)
    request = types.Request(groups=(group,), include_authorized_operations=with_operations)
    (described,) = (await client.call(ApiKey.DESCRIBE_GROUPS, version, request)).groups
    return described


async def delete_groups(client, *groups, version=2):
    types = model(ApiKey.DELETE_GROUPS, version)
    answer = await client.call(ApiKey.DELETE_GROUPS, version, types.Request(groups_names=groups))
    return {result.group_id: result.error_code for result in answer.results}


async def delete_offsets(client, partitions, *, group="g"):
    types = model(ApiKey.OFFSET_DELETE, 0)
    by_topic = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(types.OffsetDeleteRequestPartition(partition_index=partition))
    request = types.Request(
        group_id=group,
        topics=tuple(
            types.OffsetDeleteRequestTopic(name=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items()
        ),
    )
    return await client.call(ApiKey.OFFSET_DELETE, 0, request)


async def until_coordinated(client, group="g"):
    """Return when there is a coordinator."""
    (found,) = await find_coordinator(client, group)
    assert found.error_code is ErrorCode.none, found
