"""The answers of brokers and controllers without an authorizer to requests about access control."""

import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model, simulated


async def client_of(node, where):
    return await (node.client() if where == "broker" else node.client(node.node.controller.listening[0]))


@pytest.mark.parametrize("where", ["broker", "controller"])
@pytest.mark.parametrize("version", [1, 2, 3])
@simulated()
async def test_security_is_disabled(node, version, where):
    client = await client_of(node, where)
    types = model(ApiKey.DESCRIBE_ACLS, version)
    request = types.Request(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = await client.call(ApiKey.DESCRIBE_ACLS, version, request)
    assert answer.error_code is ErrorCode.security_disabled
    assert answer.error_message == "No Authorizer is configured on the broker"
    types = model(ApiKey.CREATE_ACLS, version)
    acl = types.AclCreation(
        resource_type=2,
        resource_name="t",
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    answer = await client.call(ApiKey.CREATE_ACLS, version, types.Request(creations=(acl, acl)))
    assert [result.error_code for result in answer.results] == [ErrorCode.security_disabled] * 2
    types = model(ApiKey.DELETE_ACLS, version)
    acls = types.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = await client.call(ApiKey.DELETE_ACLS, version, types.Request(filters=(acls,)))
    assert [(it.error_code, it.error_message) for it in answer.filter_results] == [
        (ErrorCode.security_disabled, "No Authorizer is configured.")
    ]
