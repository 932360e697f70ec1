"""Scenes of Produce to a compacted topic: the records that compaction could not keep apart are refused."""

from collections.abc import Mapping
from typing import Any, Final

from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import KEYED, TIMESTAMP_MS, produce
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application
from tests.conformance.comparer.transactions.partition import Partition, relative

_KEY: Final = ApiKey.PRODUCE
_TOPIC_IDS_FROM: Final = 13
_ZSTD_FROM: Final = 7


def _records(*keys: bytes | None, value: bytes | None = b"v", **header: Any) -> bytes:
    records = [NewRecord(value, key, timestamp=TIMESTAMP_MS + number) for number, key in enumerate(keys)]
    return bytes(build_batch(records, timestamp_ms=TIMESTAMP_MS, **header))


_BATCHES: Final[Mapping[str, bytes]] = {
    "keys": _records(b"a", b"b"),
    "no key": _records(None),
    "no key among others": _records(b"a", None, b"b", None),
    "many without a key": _records(*[None] * 10),
    "no key and no value": _records(None, value=None),
    "empty key": _records(b""),
    "empty key and no value": _records(b"", value=None),
    "tombstone": _records(b"a", value=None),
    "key of 900 KB": _records(b"k" * 900_000),
    "key of 1.1 MB": _records(b"k" * 1_100_000),
    "no key (gzip)": _records(b"a", None, codec=Codec.GZIP),
    "no key (lz4)": _records(b"a", None, codec=Codec.LZ4),
    "no key (snappy)": _records(b"a", None, codec=Codec.SNAPPY),
    "control": _records(b"a", control=True),
    "control without a key": _records(None, control=True),
}


def _scene(name: str, records: bytes, first_version: int = 0) -> Scene:
    def play(target: Target, _: str, version: int) -> Plain:
        content = produce(KEYED, 0, records)
        if version >= _TOPIC_IDS_FROM:
            content["topic_data"][0]["topic_id"] = target.topic_id(KEYED)
        before = Partition(target, KEYED)
        answer = relative(target.ask(_KEY, version, content), [before])
        return {"answer": answer, "added": Partition(target, KEYED).end_offset - before.end_offset}

    return Scene(f"compacted: {name}", _KEY, play, first_version)


def _transactional() -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        application.begin()
        assert "'none'" in str(application.add(KEYED))
        header = {
            "producer_id": application.producer_id,
            "producer_epoch": application.epoch,
            "transactional": True,
        }
        answers = []
        for records in (_records(None, base_sequence=0, **header), _records(b"k", base_sequence=0, **header)):
            before = Partition(target, KEYED)
            answer = application.write(version, records, topic=KEYED)
            answers.append([relative(answer, [before]), before.outcome(application)])
        return answers

    return Scene("compacted: no key in a transaction", _KEY, play)


SCENES: Final[tuple[Scene, ...]] = (
    *(_scene(name, records) for name, records in _BATCHES.items()),
    _scene("no key (zstd)", _records(b"a", None, codec=Codec.ZSTD), _ZSTD_FROM),
    _transactional(),
)
