import pytest

from esp.controller.features import SUPPORTED_FEATURES
from esp.model.errors import ErrorCode
from esp.model.features import SHARE_VERSION
from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.simulated_node import model, simulated
from tests.unit.broker.transaction_conversation import set_level


async def ask(node, version):
    client = await node.client()
    request = model(ApiKey.API_VERSIONS, version).Request(client_software_name="a", client_software_version="1")
    return await client.call(ApiKey.API_VERSIONS, version, request)


@pytest.mark.parametrize("version", range(5))
@simulated()
async def test_what_is_advertised_is_what_the_registry_says(node, version):
    answer = await ask(node, version)
    assert {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys} == {
        api.key: (api.advertised_min, api.max_version) for api in SERVED_ON[ListenerKind.BROKER].values()
    }
    assert answer.error_code == 0


@simulated()
async def test_a_new_cluster_offers_share_groups(node):
    keys = {row.api_key for row in (await ask(node, 4)).api_keys}
    assert {ApiKey.SHARE_FETCH, ApiKey.READ_SHARE_GROUP_STATE} <= keys


@with_share_groups(level=0)
async def test_apis_of_share_groups_are_offered_from_level_1_on(played):
    node, _ = played
    shares = {api.key for api in SERVED_ON[ListenerKind.BROKER].values() if api.feature == SHARE_VERSION}
    assert ApiKey.READ_SHARE_GROUP_STATE in shares
    assert not {row.api_key for row in (await ask(node, 4)).api_keys} & shares
    await set_level(node, 1, SHARE_VERSION)
    assert {row.api_key for row in (await ask(node, 4)).api_keys} >= shares


@simulated()
async def test_the_features_of_the_cluster_are_told_from_version_3_on(node):
    answer = await ask(node, 3)
    assert {row.name for row in answer.supported_features} == {"metadata.version"}, (
        "what older clients can read (KIP-1022)"
    )
    assert {row.name for row in (await ask(node, 4)).supported_features} == set(SUPPORTED_FEATURES)
    finalized = {row.name: row.max_version_level for row in answer.finalized_features}
    assert finalized == {**node.metadata.image.features, "kraft.version": 1}
    assert answer.finalized_features_epoch == node.metadata.image.offset
    assert finalized["transaction.version"] == 2


@pytest.mark.parametrize(
    ("name", "software_version", "is_said"),
    [
        ("apache-kafka-java", "4.3.1", True),
        ("a", "1", True),
        ("", "1", False),
        ("a", "", False),
        ("-a", "1", False),
        ("a b", "1", False),
        ("a", "1.", False),
    ],
)
@simulated()
async def test_clients_say_who_they_are_from_version_3_on(node, name, software_version, is_said):
    client = await node.client()
    for version in (0, 2, 3, 4):
        request = model(ApiKey.API_VERSIONS, version).Request(
            client_software_name=name, client_software_version=software_version
        )
        answer = await client.call(ApiKey.API_VERSIONS, version, request)
        is_fine = is_said or version < 3
        assert answer.error_code is (ErrorCode.none if is_fine else ErrorCode.invalid_request)
        assert bool(answer.api_keys) is is_fine
