"""What a producer snapshot remembers of each producer."""

from collections.abc import Iterator

from esp.cli.dumping.findings import Finding
from esp.model.errors import CorruptionError
from esp.storage.producer_state import ProducerStates


def dump_producers(data: bytes) -> Iterator[Finding]:
    """The entries of a ``.snapshot``."""
    try:
        states = ProducerStates.decode(data)
    except CorruptionError as error:
        yield Finding(f"Error: {error}", {"error": str(error)}, str(error))
        return
    for producer_id, state in states.items():
        first = state.transaction_first_offset
        values: dict[str, object] = {
            "producerId": producer_id,
            "producerEpoch": state.epoch,
            "coordinatorEpoch": state.coordinator_epoch,
            "currentTxnFirstOffset": f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty",
            "lastTimestamp": state.last_timestamp,
        }
        if state.batches:
            last = state.batches[-1]
            values |= {
                "firstSequence": last.first_sequence,
                "lastSequence": last.last_sequence,
                "lastOffset": last.last_offset,
                "offsetDelta": last.last_offset - last.base_offset,
                "timestamp": state.last_timestamp,
            }
        yield Finding(" ".join(f"{name}: {value}" for name, value in values.items()), values)
