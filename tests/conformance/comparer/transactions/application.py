"""An application with a transactional id at one broker: makes the states that scenes need, and tells what has become of them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.setup import POISONED, WRITTEN, batch, produce
from tests.conformance.comparer.target import Target

TIMEOUT_MS: Final = 3_600_000
"""The timeout of transactions: longer than all scenes together."""

_KEY = ApiKey
_PATIENCE_S: Final = 30
_PAUSE_S: Final = 0.002
_LATER_EPOCH: Final = 1000
"""A coordinator epoch that no coordinator reaches here."""
_TOPIC_IDS_FROM: Final = 13
_AGAIN: Final = ("concurrent_transactions", "coordinator_load_in_progress")


class Application:
    """A transactional id.

    Args:
        target: the broker.
        transactional_id: its id.
    """

    def __init__(self, target: Target, transactional_id: str) -> None:
        self.target = target
        self.id = transactional_id
        self.producer_id = 4711
        """The producer id that it has; of an id that the coordinator does not know, any one."""
        self.epoch = 5
        """The producer's epoch, likewise."""
        self.is_stuck = False
        """True if its transaction can never be completed."""
        self.times_out_at_once = False
        """True if the coordinator aborts a transaction of it as soon as it looks."""
        self._known: dict[int, str] = {}

    def another(self) -> "Application":
        """Another transactional id, with a producer of its own."""
        other = Application(self.target, f"{self.id}, of another")
        other.begin(1)
        self._known[other.producer_id] = "another's id"
        return other

    def init(self, version: int = 4, **fields: Any) -> Plain:
        """InitProducerId, once."""
        answer = self.target.ask(
            _KEY.INIT_PRODUCER_ID,
            version,
            {
                "transactional_id": self.id,
                "transaction_timeout": TIMEOUT_MS,
                "producer_id": -1,
                "producer_epoch": -1,
                **fields,
            },
        )
        if isinstance(answer, dict) and answer["error_code"] == "none":
            self.learn(answer["producer_id"], answer["producer_epoch"])
        return answer

    def init_when_loaded(self, version: int, **fields: Any) -> Plain:
        """InitProducerId, once the broker has a producer id at hand."""
        answers = []

        def is_loaded() -> bool:
            answers.append(self.init(version, **fields))
            return answers[-1]["error_code"] != "coordinator_load_in_progress"

        until(is_loaded)
        return answers[-1]

    def learn(self, producer_id: int, epoch: int) -> None:
        """The producer is this one now."""
        self.producer_id, self.epoch = producer_id, epoch
        self._known.setdefault(producer_id, f"id {len(self._known)}")

    def begin(self, times: int = 3, **fields: Any) -> None:
        """Start so often: there are epochs of the past."""
        for _ in range(times):
            until(lambda: is_done(self.init(**fields)))

    def add(self, *topics: str, version: int = 3, **fields: Any) -> Plain:
        """AddPartitionsToTxn, of the first partition of each topic."""
        return self.target.ask(_KEY.ADD_PARTITIONS_TO_TXN, version, self.adding(dict.fromkeys(topics, (0,)), **fields))

    def adding(
        self, topics: Mapping[str, Sequence[int]], *, verify_only: bool = False, **fields: Any
    ) -> dict[str, Any]:
        """The content of AddPartitionsToTxn, for clients and for brokers."""
        asked = {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [{"name": name, "partitions": list(numbers)} for name, numbers in topics.items()],
            **fields,
        }
        return {
            **{f"v3_and_below_{name}": value for name, value in asked.items()},
            "transactions": [{**asked, "verify_only": verify_only}],
        }

    def end(self, *, commit: bool, version: int, **fields: Any) -> Plain:
        """EndTxn."""
        return self.target.ask(
            _KEY.END_TXN,
            version,
            {
                "transactional_id": self.id,
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "committed": commit,
                **fields,
            },
        )

    def marker(self, topics: Mapping[str, Sequence[int]], **fields: Any) -> dict[str, Any]:
        """One marker of WriteTxnMarkers."""
        return {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "transaction_result": True,
            "topics": [{"name": name, "partition_indexes": list(numbers)} for name, numbers in topics.items()],
            "coordinator_epoch": 0,
            "transaction_version": 0,
            **fields,
        }

    def poison(self) -> None:
        """Have the partition believe in a later coordinator: it refuses the marker of the one that there is."""
        marker = self.marker({POISONED: (0,)}, coordinator_epoch=_LATER_EPOCH)
        answer = self.target.ask(_KEY.WRITE_TXN_MARKERS, 1, {"markers": [marker]})
        assert "'none'" in str(answer), answer
        self.is_stuck = True

    def batch(self, count: int = 1, base_sequence: int = 0, **header: Any) -> bytes:
        """A transactional batch of this producer."""
        return batch(
            count,
            **{
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "base_sequence": base_sequence,
                "transactional": True,
                **header,
            },
        )

    def producing(self, version: int, *batches: bytes, topic: str = WRITTEN, **fields: Any) -> dict[str, Any]:
        """The content of Produce: batches for the partitions from 0 on."""
        content = produce(topic, 0, None, acks=fields.pop("acks", -1))
        (data,) = content["topic_data"]
        data["partition_data"] = [{"index": number, "records": records} for number, records in enumerate(batches)]
        if version >= _TOPIC_IDS_FROM:
            data["topic_id"] = self.target.topic_id(topic)
        return {**content, "transactional_id": self.id, **fields}

    def write(self, version: int, *batches: bytes, **fields: Any) -> Plain:
        """Produce."""
        return self.target.ask(_KEY.PRODUCE, version, self.producing(version, *batches, **fields))

    def described(self) -> dict[str, Any]:
        """The coordinator's account of the id."""
        answer = self.target.ask(_KEY.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [self.id]})
        (state,) = answer["transaction_states"]
        started = state.pop("transaction_start_time")
        return {**state, "has_started": started >= 0}

    def settled(self) -> dict[str, Any]:
        """The same, once all markers are written and that is in the log."""
        passing = ("Prepare", "Ongoing") if self.times_out_at_once else ("Prepare",)
        if not self.is_stuck:
            until(lambda: not self.described()["transaction_state"].startswith(passing))
        return self.described()

    def refresh(self) -> None:
        """Learn the present producer from the coordinator."""
        state = self.settled()
        self.learn(state["producer_id"], state["producer_epoch"])

    def named(self, value: Plain) -> Plain:
        """An answer with names in place of producer ids."""
        if isinstance(value, list):
            return [self.named(element) for element in value]
        if not isinstance(value, dict):
            return value
        named = {name: self.named(element) for name, element in value.items() if name != "producer_id"}
        if "producer_id" in value:
            number = value["producer_id"]
            named["producer"] = number if number < 0 else self._known.get(number, "an id that was not there before")
        return named

    def outcome(self, answer: Plain) -> Plain:
        """An answer, and the state that it has left behind."""
        return {"answer": self.named(answer), "afterwards": self.named(self.settled())}


def is_done(answer: Plain) -> bool:
    """True for an answer without an error, False for one after which clients ask again."""
    assert isinstance(answer, dict), answer
    assert answer["error_code"] in ("none", *_AGAIN), answer
    return bool(answer["error_code"] == "none")


def until(claim: Any) -> None:
    """Wait until a claim is true."""
    deadline = time.monotonic() + _PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, f"not true within {_PATIENCE_S} s"
        time.sleep(_PAUSE_S)
