"""Write ``esp/settings/kafka_settings.json``: the settings that a real Kafka node knows, with Kafka's own defaults.

    python tools/read_settings.py HOST:PORT [BROKER_ID] > esp/settings/kafka_settings.json

It asks a running Kafka node (DescribeConfigs version 4) for every setting of a topic, a broker, a group and of client metrics: name, type,
default, whether sensitive or read-only. Only defaults are taken, so what the node's ``server.properties`` sets counts for nothing, with one
exception: it must have no ``log.retention.*`` or ``log.roll.*``, because topics inherit those without a trace.

Of the settings of a broker that can be changed while it runs it asks further what a change of them may be, by changes that are validated
only (IncrementalAlterConfigs version 1): ``scope`` says for whom one can be given if not for all brokers at once (``broker``: for each by
itself; ``listener``: for a listener of a broker), ``least``, ``most`` and ``words`` which values it takes.
"""

import datetime as dt
import io
import json
import re
import socket
import struct
import sys
from typing import Any, Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResourceResult, DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta

TOPIC: Final = 2
BROKER: Final = 4
CLIENT_METRICS: Final = 16
GROUP: Final = 32
ALL_BROKERS: Final = ""
SET: Final = 0
NUMBERS: Final = ("int", "short", "long", "double")
SMALLEST: Final = "-32768"
LARGEST: Final = {"int": "2147483647", "short": "32767", "long": "9223372036854775807", "double": "1E308"}
NO_WORD: Final = "no-such-word"
DEFAULT_CONFIG: Final = 5
TYPES: Final = ("unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
PROBE_TOPIC: Final = "read-settings-probe"


def ask(address: tuple[str, int], request: Any, response_class: Any) -> Any:
    """Send one request over a connection of its own and return the answer."""
    body = io.BytesIO()
    header = RequestHeader(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(1),
        client_id="read-settings",
    )
    entity_writer(RequestHeader)(body, header)
    entity_writer(type(request))(body, request)
    with socket.create_connection(address, timeout=30) as connection, connection.makefile("rb") as stream:
        connection.sendall(struct.pack(">i", len(body.getvalue())) + body.getvalue())
        (length,) = struct.unpack(">i", stream.read(4))
        answer = stream.read(length)
    _, size = entity_reader(response_class.__header_schema__)(answer, 0)
    return entity_reader(response_class)(answer, size)[0]


def describe(setting: DescribeConfigsResourceResult) -> dict[str, Any]:
    """Return what is kept of one setting."""
    defaults = [synonym.value for synonym in setting.synonyms if synonym.source == DEFAULT_CONFIG]
    if not defaults and setting.config_source == DEFAULT_CONFIG:
        defaults = [setting.value]
    entry: dict[str, Any] = {
        "name": setting.name,
        "type": TYPES[setting.config_type],
        "default": defaults[0] if defaults else None,
    }
    if setting.read_only:
        entry["read_only"] = True
    if setting.is_sensitive:
        entry["sensitive"] = True
    return entry


def try_change(address: tuple[str, int], name: str, value: str) -> str:
    """Return what the node has against this value of a setting for all brokers; empty if nothing."""
    config = AlterableConfig(name=name, config_operation=i8(SET), value=value)
    resource = AlterConfigsResource(resource_type=i8(BROKER), resource_name=ALL_BROKERS, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
    [answer] = ask(address, request, IncrementalAlterConfigsResponse).responses
    return answer.error_message or ""


def describe_change(address: tuple[str, int], entry: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be known of changes of a setting besides ``entry``."""
    name, kind = entry["name"], entry["type"]
    told: dict[str, Any] = {}
    refusal = try_change(address, name, entry["default"] or "1")
    if "only per-listener" in refusal:
        return {"scope": "listener"}
    if "at default cluster level" in refusal:
        told["scope"] = "broker"
    if kind in NUMBERS:
        for key, value, words in (("least", SMALLEST, "at least"), ("most", LARGEST[kind], "no more than")):
            found = re.search(
                rf"for configuration {re.escape(name)}: Value must be {words} (\S+)$", try_change(address, name, value)
            )
            if found:
                told[key] = json.loads(found[1])
    elif kind in ("string", "list"):
        found = re.search(r"String must be one of: (.*)$", try_change(address, name, NO_WORD))
        if found:
            told["words"] = found[1].split(", ")
    return told


def main() -> None:
    """Ask the node named on the command line and print the file."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    host, _, port = sys.argv[1].rpartition(":")
    broker = sys.argv[2] if len(sys.argv) == 3 else "1"
    address = (host, int(port))
    topic = CreatableTopic(
        name=PROBE_TOPIC, num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
    )
    timeout = i32Timedelta.parse(dt.timedelta(seconds=30))
    ask(address, CreateTopicsRequest(topics=(topic,), timeout=timeout), CreateTopicsResponse)
    wanted = {
        "topic": (TOPIC, PROBE_TOPIC),
        "broker": (BROKER, broker),
        "group": (GROUP, "any"),
        "client_metrics": (CLIENT_METRICS, "any"),
    }
    resources = tuple(
        DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=None)
        for kind, name in wanted.values()
    )
    answer = ask(address, DescribeConfigsRequest(resources=resources, include_synonyms=True), DescribeConfigsResponse)
    kinds = {kind: title for title, (kind, _) in wanted.items()}
    sections = []
    for result in answer.results:
        if result.error_code != ErrorCode.none:
            sys.exit(f"{kinds[result.resource_type]}: {result.error_code.name} {result.error_message}")
        entries = sorted((describe(setting) for setting in result.configs), key=lambda entry: entry["name"])
        if result.resource_type == BROKER:
            for entry in entries:
                if not entry.get("read_only"):
                    entry |= describe_change(address, entry)
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
        sections.append(f" {json.dumps(kinds[result.resource_type])}: [\n{lines}\n ]")
        print(f"{kinds[result.resource_type]}: {len(entries)} settings", file=sys.stderr)
    print("{\n" + ",\n".join(sections) + "\n}")


if __name__ == "__main__":
    main()
