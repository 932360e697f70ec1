import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.client_quota_filter import MATCH_ANY, MATCH_DEFAULT, MATCH_EXACT, ClientQuotaFilter, FilterComponent
from esp.model.client_quotas import quota_entity
from esp.model.errors import ApiError, ErrorCode

names = st.sampled_from(["a", "b", None])
entities = st.dictionaries(st.sampled_from(["user", "client-id"]), names, min_size=1).map(
    lambda parts: quota_entity(parts.items())
)
components = st.dictionaries(
    st.sampled_from(["user", "client-id"]),
    st.sampled_from([(MATCH_EXACT, "a"), (MATCH_EXACT, "b"), (MATCH_DEFAULT, None), (MATCH_ANY, None)]),
).map(lambda wanted: [FilterComponent(kind, *match) for kind, match in wanted.items()])


@given(components, entities, st.booleans())
def test_an_entity_has_a_part_for_each_component(wanted, entity, strict):
    parts = dict(entity)
    naive = all(
        each.entity_type in parts and (each.match_type == MATCH_ANY or parts[each.entity_type] == each.match)
        for each in wanted
    )
    if strict:
        naive = naive and len(parts) == len(wanted)
    assert ClientQuotaFilter(wanted, strict=strict).matches(entity) == naive


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        (
            [("user", 0, None)],
            ErrorCode.invalid_request,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", 1, "a")],
            ErrorCode.invalid_request,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", 2, "a")],
            ErrorCode.invalid_request,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 9, None)], ErrorCode.invalid_request, "Unknown match type 9"),
        ([("", 1, None)], ErrorCode.invalid_request, "Invalid empty entity type."),
        (
            [("user", 1, None)] * 2,
            ErrorCode.invalid_request,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", 1, None)], ErrorCode.unsupported_version, "Unsupported entity type group"),
        (
            [("user", 1, None), ("ip", 1, None)],
            ErrorCode.invalid_request,
            (
                "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
                "filter component."
            ),
        ),
    ],
)
def test_filters_without_a_meaning_are_refused_as_by_kafka(wanted, code, text):
    with pytest.raises(ApiError) as refused:
        ClientQuotaFilter([FilterComponent(*each) for each in wanted], strict=False)
    assert (refused.value.code, refused.value.message) == (code, text)
