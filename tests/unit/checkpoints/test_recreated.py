"""What a group tells of the topics of a checkpoint."""

from esp.checkpoints.batch_files import BatchOffsets, Place
from esp.checkpoints.checkpoint import Checkpoint
from esp.checkpoints.recreated import Witness, find_recreated, find_witness
from esp.model.position_note import PositionNote, id_text

A0, A1, B0 = Place("a", 0), Place("a", 1), Place("b", 0)
OLD, NEW = b"\1" * 16, b"\2" * 16
CHECKPOINT = Checkpoint(
    "here", "q", 3, 3, BatchOffsets("{}", ('{"a":{"0":70,"1":50},"b":{"0":5}}',)), None, False, None
)
PRESENT = {"a": id_text(NEW), "b": id_text(OLD)}


def of_batch(batch: int | None, topic_id: bytes, *places: Place) -> dict[Place, tuple[int, PositionNote]]:
    return {place: (5, PositionNote(topic_id, batch=batch, query="q")) for place in places}


def test_an_id_that_is_another_one_now_is_told() -> None:
    offsets = {**of_batch(3, OLD, A0, A1), **of_batch(3, OLD, B0)}
    words = f"topic created again: id {id_text(OLD)}, now {id_text(NEW)}"
    assert find_recreated(CHECKPOINT, Witness("g", offsets), PRESENT) == {"a": words}
    offsets = {**of_batch(2, OLD, A0, A1), **of_batch(2, OLD, B0)}
    words = f"topic created again since batch 2: id {id_text(OLD)}, now {id_text(NEW)}"
    assert find_recreated(CHECKPOINT, Witness("g", offsets), PRESENT) == {"a": words}


def test_offsets_that_were_deleted_with_their_topic_are_told() -> None:
    words = "topic created again: its offsets in group g are gone"
    assert find_recreated(CHECKPOINT, Witness("g", of_batch(3, OLD, B0)), PRESENT) == {"a": words}
    words = "topic created again, or added since batch 1: its offsets in group g are gone"
    assert find_recreated(CHECKPOINT, Witness("g", of_batch(1, OLD, B0)), PRESENT) == {"a": words}
    assert find_recreated(CHECKPOINT, Witness("g", of_batch(3, OLD, B0)), {"b": id_text(OLD)}) == {}, "it is not there"


def test_what_is_not_known_is_not_told() -> None:
    same = {"a": id_text(OLD), "b": id_text(OLD)}
    offsets = {**of_batch(None, OLD, A0, A1), B0: (5, PositionNote())}  # of another program
    assert find_recreated(CHECKPOINT, Witness("g", offsets), same) == {}
    assert find_recreated(CHECKPOINT, Witness("g", offsets), {"a": "", "b": ""}) == {}, "a cluster without ids"
    assert find_recreated(CHECKPOINT, Witness("g", {}), PRESENT) == {}


def test_a_query_that_went_over_to_the_new_topic_has_it() -> None:
    jumped = {A0: (70, PositionNote(NEW, OLD)), A1: (50, PositionNote(NEW, OLD)), **of_batch(None, OLD, B0)}
    assert find_recreated(CHECKPOINT, Witness("g", jumped), PRESENT) == {}
    planned = {A0: (0, PositionNote(NEW, OLD)), A1: (0, PositionNote(NEW, OLD)), **of_batch(None, OLD, B0)}
    assert [*find_recreated(CHECKPOINT, Witness("g", planned), PRESENT)] == ["a"], "the checkpoint is not that far"


def test_the_group_of_a_query_is_found_by_its_name_or_by_the_id_beside_its_offsets() -> None:
    nameless, named = of_batch(2, OLD, A0), of_batch(5, OLD, A0)
    groups = {"spark.q": nameless, "spark.name": named, "spark.renamed": of_batch(4, OLD, A0), "spark.empty": {}}
    assert find_witness("q", groups) == Witness("spark.name", named)
    assert find_witness("q", {"spark.q": of_batch(None, OLD, A0)}) is not None
    assert find_witness("r", groups) is None
    assert Witness("g", named).batch == 5
