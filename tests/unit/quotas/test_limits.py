import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.client_quotas import (
    CONNECTION_CREATION_RATE,
    PRODUCER_BYTE_RATE,
    client_alone,
    ip_alone,
    quota_entity,
    user_alone,
    user_and_client,
)
from esp.quotas.limits import QuotaLimits

NAMES = [None, "a", "b"]

ORDER = [  # the order of Kafka's documentation, from the first that counts to the last
    user_and_client,
    lambda user, client: user_and_client(user, None),
    lambda user, client: user_alone(user),
    lambda user, client: user_and_client(None, client),
    lambda user, client: user_and_client(None, None),
    lambda user, client: user_alone(None),
    lambda user, client: client_alone(client),
    lambda user, client: client_alone(None),
]

entities = st.one_of(
    st.sampled_from(NAMES).map(user_alone),
    st.sampled_from(NAMES).map(client_alone),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).map(lambda names: user_and_client(*names)),
)


@given(st.dictionaries(entities, st.integers(1, 100)), st.sampled_from("abc"), st.sampled_from("abc"))
def test_the_most_special_quota_counts(values, user, client_id):
    limits = QuotaLimits({entity: {PRODUCER_BYTE_RATE: value} for entity, value in values.items()})
    first = next((entity(user, client_id) for entity in ORDER if entity(user, client_id) in values), None)
    found = limits.find(PRODUCER_BYTE_RATE, user, client_id)
    if first is None:
        assert found is None
        return
    assert (found.value, found.entity) == (values[first], first)
    types = {part.type for part in first}
    # What is found by the user alone is shared by all clients of the user, and so on.
    assert found.sharers == (user if "user" in types else None, client_id if "client-id" in types else None)


def test_each_key_has_an_order_of_its_own():
    limits = QuotaLimits({user_alone("a"): {"consumer_byte_rate": 1.0}, client_alone("c"): {PRODUCER_BYTE_RATE: 2.0}})
    assert limits.find(PRODUCER_BYTE_RATE, "a", "c").value == 2
    assert limits.find("consumer_byte_rate", "a", "c").value == 1
    assert limits.find("request_percentage", "a", "c") is None


def test_an_address_without_a_quota_has_the_default():
    limits = QuotaLimits(
        {ip_alone("192.0.2.1"): {CONNECTION_CREATION_RATE: 5.0}, ip_alone(None): {CONNECTION_CREATION_RATE: 7.0}}
    )
    assert limits.find_for_address("192.0.2.1") == (5, ip_alone("192.0.2.1"), (None, "192.0.2.1"))
    assert limits.find_for_address("192.0.2.2") == (7, ip_alone(None), (None, "192.0.2.2"))
    assert QuotaLimits({user_alone(None): {PRODUCER_BYTE_RATE: 5.0}}).find_for_address("192.0.2.1") is None


@pytest.mark.parametrize(
    ("written", "peer"),
    [
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
    ],
)
def test_an_address_has_its_quota_however_it_is_written(written, peer):
    """Kafka stores the text that it is given, and compares addresses."""
    limits = QuotaLimits(
        {ip_alone(written): {CONNECTION_CREATION_RATE: 5.0}, ip_alone(None): {CONNECTION_CREATION_RATE: 7.0}}
    )
    found = limits.find_for_address(peer)
    assert (found.value, found.entity) == (5, ip_alone(written))
    assert found.sharers == limits.find_for_address(written).sharers


def test_of_two_quotas_of_one_address_the_smaller_counts():
    several = {ip_alone("0:0::1"): {CONNECTION_CREATION_RATE: 9.0}, ip_alone("::1"): {CONNECTION_CREATION_RATE: 8.0}}
    for quotas in (several, dict(reversed(several.items()))):
        assert QuotaLimits(quotas).find_for_address("::1").entity == ip_alone("::1")


def test_parts_of_an_entity_have_one_order():
    assert quota_entity([("user", "u"), ("client-id", None)]) == user_and_client("u", None)
