"""A plan as a file: JSON with a version, the cluster's id and a name of its own, so that any machine can carry it out or go on with it.

A file is written once and never changed; what becomes of the plan stands in the journal beside it (:mod:`esp.rebalance.journal`).
"""

import os
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from esp.model.errors import OperatorError
from esp.placement.cluster_view import BrokerView
from esp.placement.intents import Rollback
from esp.placement.limits import Limits
from esp.placement.plan import BrokerLoad, Imbalance, Plan, Step
from esp.rebalance.intent_words import intent_words, parse_intent

VERSION: Final = 1
_KIND: Final = "esp-rebalance-plan"
_REMEDY: Final = "Make one with `esp rebalance plan`, and leave the file as it is."


class PlanFile(NamedTuple):
    """A plan and where it comes from."""

    plan_id: str
    """Random: no two plans have the same, so that a journal cannot be taken for another plan's."""
    made_at_ms: int
    """Since the Unix epoch."""
    plan: Plan


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """The file, field by field: a change of :class:`Plan` must not change the form of files unnoticed."""

    kind: str
    version: int
    plan_id: str
    made_at_ms: int
    cluster_id: str
    intent: list[str]
    is_rollback: bool
    seed: int
    limits: Limits
    brokers: tuple[BrokerView, ...]
    inputs: tuple[str, ...]
    loads_before: tuple[BrokerLoad, ...]
    loads_after: tuple[BrokerLoad, ...]
    imbalance_before: Imbalance
    steps: tuple[Step, ...]


def encode_plan(file: PlanFile) -> str:
    """Return what is to stand in the file."""
    plan = file.plan
    intent, is_rollback = plan.intent, False
    if isinstance(intent, Rollback):
        intent, is_rollback = intent.of, True
    document = _Document(
        kind=_KIND,
        version=VERSION,
        plan_id=file.plan_id,
        made_at_ms=file.made_at_ms,
        cluster_id=plan.cluster_id,
        intent=intent_words(intent).split(),
        is_rollback=is_rollback,
        seed=plan.seed,
        limits=plan.limits,
        brokers=plan.brokers,
        inputs=plan.inputs,
        loads_before=plan.loads_before,
        loads_after=plan.loads_after,
        imbalance_before=plan.imbalance_before,
        steps=plan.steps,
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def decode_plan(text: str, source: str) -> PlanFile:
    """Read a plan.

    Args:
        text: the content of the file.
        source: its name, for messages.

    Raises:
        OperatorError: it is none, or of another version; the entry is named.
    """
    try:
        found = msgspec.json.decode(text, type=_Document)
    except msgspec.ValidationError as error:
        raise OperatorError(f"{source} is not a plan: {error}", _REMEDY) from error
    except msgspec.DecodeError as error:
        raise OperatorError(f"{source} is not JSON: {error}", _REMEDY) from error
    if found.kind != _KIND or found.version != VERSION:
        raise OperatorError(
            f"{source} is a {found.kind} of version {found.version}",
            f"This release reads version {VERSION} of {_KIND}.",
        )
    intent = parse_intent(found.intent)
    plan = Plan(
        cluster_id=found.cluster_id,
        intent=Rollback(intent) if found.is_rollback else intent,
        seed=found.seed,
        limits=found.limits,
        brokers=found.brokers,
        inputs=found.inputs,
        loads_before=found.loads_before,
        loads_after=found.loads_after,
        imbalance_before=found.imbalance_before,
        steps=found.steps,
    )
    _check_steps(plan, source)
    return PlanFile(found.plan_id, found.made_at_ms, plan)


def _check_steps(plan: Plan, source: str) -> None:
    """Check that a file, which may have been edited, still is a plan with the properties on which the executor relies."""
    seen = set()
    for number, step in enumerate(plan.steps):
        if any(not 0 <= other < number for other in step.waits_for):
            raise OperatorError(f"{source}: steps[{number}] waits for a step that is not before it", _REMEDY)
        for place, move in enumerate(step.moves):
            where = f"{source}: steps[{number}].moves[{place}] ({move.name})"
            if move.name in seen:
                raise OperatorError(f"{where}: the partition moves twice", _REMEDY)
            seen.add(move.name)
            for replicas in (move.before, move.after):
                if not replicas or len(set(replicas)) < len(replicas):
                    raise OperatorError(f"{where}: {list(replicas)} is not a list of replicas", _REMEDY)


def read_plan(path: str) -> PlanFile:
    """Read the plan in a file.

    Raises:
        OperatorError: the file cannot be read, or is no plan.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
        raise OperatorError(f"the plan {path} cannot be read: {reason}", _REMEDY) from error
    return decode_plan(text, path)


def write_plan(path: str, file: PlanFile) -> None:
    """Write a plan into a new file, synced before this returns.

    Raises:
        OperatorError: there is such a file already, or it cannot be written.
    """
    try:
        with open(path, "x", encoding="utf-8") as new:
            new.write(encode_plan(file))
            new.flush()
            os.fsync(new.fileno())
    except FileExistsError as error:
        raise OperatorError(
            f"{path} exists already", "Name another file with --out; plans are not overwritten."
        ) from error
    except OSError as error:
        with suppress(OSError):  # what there is of it is no plan, and would be in the way of the next one
            os.unlink(path)
        raise OperatorError(f"{path} cannot be written: {error.strerror}", "Name another file with --out.") from error
