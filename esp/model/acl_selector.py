"""The rules of access that filters select, for a request with many filters: each filter against each rule would hold up the loop.

Filters that give the same fields share a table of the rules by these fields, which is made for the first of them.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from esp.model.acl import WILDCARD, AclBinding, PatternType
from esp.model.acl_filter import ANY, MATCH, AclFilter

_Rules = Mapping[uuid.UUID, AclBinding]
_Fields = tuple[int, ...]
_Table = defaultdict[tuple[Any, ...], dict[uuid.UUID, AclBinding]]


class AclSelector:
    """Selects among rules.

    Args:
        acls: the rules by their ids. They do not change.
    """

    def __init__(self, acls: _Rules) -> None:
        self._acls = acls
        self._tables: dict[_Fields, _Table] = {}

    def select(self, acl_filter: AclFilter) -> _Rules:
        """Return the rules that a filter selects, by their ids: those for which :meth:`AclFilter.matches` is true."""
        selected: dict[uuid.UUID, AclBinding] = {}
        for each in self._without_match(acl_filter):
            fields = tuple(place for place, value in enumerate(each) if value is not None and value != ANY)
            selected |= self._table(fields).get(tuple(each[place] for place in fields), {})
        return selected

    def _without_match(self, acl_filter: AclFilter) -> Iterator[AclFilter]:
        """Yield filters that together select the same rules, and name the patterns that apply to a resource."""
        name = acl_filter.resource_name
        if acl_filter.pattern_type != MATCH:
            yield acl_filter
        elif name is None:
            yield acl_filter._replace(pattern_type=ANY)
        else:
            literal = acl_filter._replace(pattern_type=PatternType.LITERAL)
            yield literal
            yield literal._replace(resource_name=WILDCARD)
            for length in self._prefix_lengths:
                if length <= len(name):
                    yield acl_filter._replace(resource_name=name[:length], pattern_type=PatternType.PREFIXED)

    @cached_property
    def _prefix_lengths(self) -> list[int]:
        prefixes = (each.resource_name for each in self._acls.values() if each.pattern_type is PatternType.PREFIXED)
        return sorted(set(map(len, prefixes)))

    def _table(self, fields: _Fields) -> _Table:
        """Return the rules by the values of some of their fields."""
        table = self._tables.get(fields)
        if table is None:
            table = self._tables[fields] = defaultdict(dict)
            for acl_id, binding in self._acls.items():
                table[tuple([binding[place] for place in fields])][acl_id] = binding
        return table
