import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import ms
from tests.unit.broker.simulated_node import model, simulated

MV, ELR = "metadata.version", "eligible.leader.replicas.version"
UP, SAFE = 1, 2


async def update(client, *updates, version=2, validate_only=False):
    types = model(ApiKey.UPDATE_FEATURES, version)
    options = {"validate_only": validate_only} if version else {}
    wanted = tuple(
        types.FeatureUpdateKey(
            feature=feature,
            max_version_level=level,
            **({"upgrade_type": kind} if version else {"allow_downgrade": kind != UP}),
        )
        for feature, level, kind in updates
    )
    return await client.call(
        ApiKey.UPDATE_FEATURES, version, types.Request(timeout=ms(1000), feature_updates=wanted, **options)
    )


@pytest.mark.parametrize("where", ["broker", "controller"])
@pytest.mark.parametrize("version", [0, 1, 2])
@simulated()
async def test_old_versions_name_all_features_when_all_is_well(node, version, where):
    client = await (node.client() if where == "broker" else node.client(node.node.controller.listening[0]))
    answer = await update(client, (MV, 30, UP), (ELR, 1, UP), version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    if version < 2:
        assert [(it.feature, it.error_code, it.error_message) for it in answer.results] == [
            (MV, ErrorCode.none, "NONE"),
            (ELR, ErrorCode.none, "NONE"),
        ]


@pytest.mark.parametrize("version", [0, 1, 2])
@simulated()
async def test_one_that_is_impossible_refuses_all(node, version):
    answer = await update(await node.client(), (MV, 30, UP), (MV, 31, UP), version=version)
    assert answer.error_code is ErrorCode.invalid_update_version
    assert answer.error_message.endswith("Local controller 1 only supports versions 30-30")
    if version < 2:
        assert answer.results == ()


@simulated()
async def test_version_0_can_only_raise_levels(node):
    answer = await update(await node.client(), (ELR, 0, SAFE), version=0)
    assert "without setting the upgrade type" in answer.error_message
