"""Kafka's requests of members of share groups, with the offsets that they acknowledge in ranges: the classes that handlers see.

The bytes are those of Kafka's own classes (:mod:`esp.protocol.acknowledged_ranges`).
"""

from dataclasses import dataclass

from kio.schema.share_acknowledge.v2 import request as acknowledge
from kio.schema.share_fetch.v2 import request as fetch

from esp.protocol.acknowledged_ranges import AcknowledgedRange


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition(fetch.FetchPartition):
    """Kafka's, with ranges."""

    acknowledgement_batches: tuple[AcknowledgedRange, ...]  # type: ignore[assignment]  # the fields are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic(fetch.FetchTopic):
    """Kafka's, with our partitions."""

    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchRequest(fetch.ShareFetchRequest):
    """Kafka's, with our topics."""

    topics: tuple[FetchTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgePartition(acknowledge.AcknowledgePartition):
    """Kafka's, with ranges."""

    acknowledgement_batches: tuple[AcknowledgedRange, ...]  # type: ignore[assignment]  # the fields are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeTopic(acknowledge.AcknowledgeTopic):
    """Kafka's, with our partitions."""

    partitions: tuple[AcknowledgePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledgeRequest(acknowledge.ShareAcknowledgeRequest):
    """Kafka's, with our topics."""

    topics: tuple[AcknowledgeTopic, ...]
