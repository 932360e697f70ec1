"""The trash as records (TRASH-1, TRASH-2).

A topic is put in the trash by its RemoveTopicRecord, which has the times in fields of our own: Kafka takes the topic for deleted. It is
restored by the records of a topic, under its old id. It is purged by a setting of its name that is taken away, and never was there: Kafka
passes over that.
"""

from typing import Final

from esp.controller.errors import InvalidMetadataError
from esp.controller.image import TrashedTopic
from esp.model.ids import TopicId, uuid_from_base64, uuid_to_base64
from esp.schemas.metadata_records import TOPIC_RESOURCE, ConfigRecord, RemoveTopicRecord

TRASH_PREFIX: Final = "esp.trash."


def trash_record(trashed: TrashedTopic) -> RemoveTopicRecord:
    """The record that puts a topic in the trash."""
    return RemoveTopicRecord(
        topic_id=trashed.topic.topic_id, trashed_ms=trashed.trashed_ms, trash_until_ms=trashed.until_ms
    )


def purge_record(trashed: TrashedTopic) -> ConfigRecord:
    """The record that purges a topic."""
    topic = trashed.topic
    name = f"{TRASH_PREFIX}{uuid_to_base64(topic.topic_id)}"
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=None)


def is_purge(record: ConfigRecord) -> bool:
    """True if a record purges a topic."""
    return record.resource_type == TOPIC_RESOURCE and record.name.startswith(TRASH_PREFIX)


def purged_id(record: ConfigRecord) -> TopicId:
    """The topic that a record purges.

    Raises:
        InvalidMetadataError: it names none.
    """
    text = record.name.removeprefix(TRASH_PREFIX)
    try:
        return TopicId(uuid_from_base64(text))
    except (ValueError, TypeError) as error:
        raise InvalidMetadataError(f"{record.name} of topic {record.resource_name} has no topic id") from error
