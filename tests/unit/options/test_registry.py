"""The client of schema registries: what it asks, what it waits for, and what it says."""

import base64
import time
from collections.abc import Iterator

import pytest

from esp.options.registry import Registry, RegistryError
from esp.testing.ports import free_port
from tests.unit.options.registry_server import TestRegistry, running_registry


@pytest.fixture
def server() -> Iterator[TestRegistry]:
    with running_registry() as registry:
        yield registry


def test_a_schema_is_asked_for_once(server: TestRegistry) -> None:
    number = server.add('"int"')
    registry = Registry(server.url + "/")
    assert [registry.find_schema(number) for _ in range(3)] == ['"int"'] * 3
    assert server.asked == ["/schemas/ids/1"]


def test_the_newest_schema_of_a_subject_is_found(server: TestRegistry) -> None:
    server.add('"int"', "a/b-value")
    server.add('"long"', "a/b-value")
    server.newest["a%2Fb-value"] = server.newest["a/b-value"]
    assert Registry(server.url).find_newest("a/b-value") == '"long"'
    assert server.asked == ["/subjects/a%2Fb-value/versions/latest"]


def test_a_registry_that_fails_for_a_while_is_asked_again(server: TestRegistry) -> None:
    number = server.add('"int"')
    server.failures = [503, 404, 500]
    assert Registry(server.url, wait_s=30, pause_s=0).find_schema(number) == '"int"'
    assert len(server.asked) == 4


def test_an_unknown_id_is_waited_for_and_named(server: TestRegistry) -> None:
    begun = time.monotonic()
    with pytest.raises(RegistryError, match=r"has no schema 9: check that .* \(asked for 0.2 s\)") as caught:
        Registry(server.url, wait_s=0.2, pause_s=0.01).find_schema(9)
    assert time.monotonic() - begun >= 0.2
    assert server.url in str(caught.value)
    assert len(server.asked) > 2
    with pytest.raises(RegistryError, match="has no subject x: register a schema"):
        Registry(server.url, wait_s=0).find_newest("x")


def test_a_registry_that_is_away_is_named_without_its_password() -> None:
    port = free_port()
    with pytest.raises(RegistryError, match=f"http://127.0.0.1:{port} does not answer .*: start it") as caught:
        Registry(f"http://me:secret@127.0.0.1:{port}", wait_s=0).find_schema(1)
    assert "secret" not in str(caught.value)


def test_a_log_in_is_sent_and_a_wrong_one_is_not_tried_again(server: TestRegistry) -> None:
    number = server.add('"int"')
    server.log_in = "Basic " + base64.b64encode(b"me:p@ss").decode()
    there = server.url.removeprefix("http://")
    assert Registry(f"http://me:p%40ss@{there}").find_schema(number) == '"int"'
    with pytest.raises(RegistryError, match=r"denies schema 1 \(401\)"):
        Registry(server.url).find_schema(number)
    assert len(server.asked) == 2


def test_other_schemas_than_avros_are_refused(server: TestRegistry) -> None:
    server.add("syntax", schemaType="PROTOBUF")
    server.add('"a.B"', references=[{"name": "a.B", "subject": "b", "version": 1}])
    with pytest.raises(RegistryError, match=r"schema 1 .* is of type PROTOBUF: valueFormat=avro reads AVRO only"):
        Registry(server.url).find_schema(1)
    with pytest.raises(RegistryError, match=r"schema 2 .* refers to other schemas: register it"):
        Registry(server.url).find_schema(2)


def test_an_answer_that_is_no_json_is_an_absence(server: TestRegistry) -> None:
    server.schemas[1] = b"<html>"  # type: ignore[assignment]
    with pytest.raises(RegistryError, match=r"does not answer \(no JSON: b'<html>'\)"):
        Registry(server.url, wait_s=0).find_schema(1)
