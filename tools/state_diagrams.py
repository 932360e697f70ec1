"""Draw the tables of states that the code obeys into the documentation; with --check, only say whether the diagrams are up to date.

Usage: python -m tools.state_diagrams [--check]
"""

import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from esp.broker.controller_client import lifecycle
from esp.groups import group as states
from esp.groups.consumer import reconciliation
from esp.raft import roles
from esp.replication import isr_changes
from esp.schemas.consumer_group_records import MemberState
from esp.schemas.share_state_records import RecordState
from esp.share import record_states
from tools.marked_text import main, replace_marked

_DOCS: Final = Path(__file__).parent.parent / "docs"
DOCUMENTS: Final[Mapping[Path, tuple[str, ...]]] = {
    _DOCS / "REPLICATION.md": ("a quorum member", "a broker", "a change of the in-sync set"),
    _DOCS / "GROUPS.md": ("a group", "a member", "a record of a share partition"),
}
"""The diagrams of each document."""
END: Final = "<!-- end: state diagram -->"


def begin(name: str) -> str:
    """The marker before one diagram."""
    return f"<!-- begin: state diagram of {name}, written by tools/state_diagrams.py -->"


def diagrams() -> Mapping[str, str]:
    """All diagrams in Mermaid, by the name in their marker."""
    return {
        "a quorum member": _draw(roles.Role.UNATTACHED, _plain(roles.TRANSITIONS)),
        "a broker": _draw(lifecycle.BrokerState.NOT_RUNNING, _plain(lifecycle.TRANSITIONS)),
        "a change of the in-sync set": _draw(isr_changes.Phase.COMMITTED, _labelled(isr_changes.TRANSITIONS)),
        "a group": _draw(states.GroupState.EMPTY, _labelled(states.TRANSITIONS)),
        "a member": _draw(MemberState.STABLE, _labelled(reconciliation.TRANSITIONS)),
        "a record of a share partition": _draw(RecordState.AVAILABLE, _labelled(record_states.TRANSITIONS)),
    }


def with_diagrams(document: str, names: Iterable[str]) -> str:
    """The document with the present diagrams of these names between their markers.

    Raises:
        ValueError: a marker is missing.
    """
    drawn = diagrams()
    for name in names:
        document = replace_marked(document, begin(name), END, f"\n{drawn[name]}\n")
    return document


_Edge = tuple[Enum, Enum, str]
_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


def _plain(transitions: Mapping[_State, frozenset[_State]]) -> list[_Edge]:
    """The edges of a table that says which states may follow each; in the order in which states are defined."""
    return [(state, other, "") for state in transitions for other in type(state) if other in transitions[state]]


def _labelled(transitions: Mapping[tuple[_State, _Event], _State]) -> list[_Edge]:
    """The edges of a table that says what follows a state and an event."""
    return [(state, other, event.name) for (state, event), other in transitions.items()]


def _draw(initial: Enum, edges: Iterable[_Edge]) -> str:
    """A diagram in its fence. What leads back to the same state is left out, unless it has a label."""
    known = list(edges)
    states = dict.fromkeys(state for source, target, _label in known for state in (source, target))
    final = [state for state in states if all(source is not state for source, _target, _label in known)]
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {initial.name}"]
    lines += (
        f"    {source.name} --> {target.name}" + (f": {label}" if label else "")
        for source, target, label in known
        if label or source is not target
    )
    lines += (f"    {state.name} --> [*]" for state in final)
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    renewals = {path: partial(with_diagrams, names=names) for path, names in DOCUMENTS.items()}
    sys.exit(main(__doc__, "tools.state_diagrams", renewals))
