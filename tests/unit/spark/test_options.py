import re

import pytest

from esp.consumer.cluster import Address
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.consumer.partition_reader import FetchTerms
from esp.options.errors import OptionError
from esp.spark.limits import Limits
from esp.spark.options import COLUMNS, Edge, Kind, OnRecreated, ReadOptions, parse_options

LEAST = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
LOSS_REMEDY = "set failOnDataLoss=false to go on without"
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hidden";'


def parse(**options: str) -> ReadOptions:
    return parse_options(LEAST | {name.replace("__", "."): value for name, value in options.items()})


def test_defaults_are_those_of_the_kafka_source() -> None:
    found = parse_options(LEAST)
    assert found.servers == (Address("a", 1),)
    assert (found.topics, found.pattern, found.partitions) == (("t",), None, None)
    assert found.end is not None
    assert (found.start.everywhere, found.end.everywhere) == (EARLIEST, LATEST)
    assert found.columns == COLUMNS[:-1]
    assert found.fetch_terms == FetchTerms(loss_remedy=LOSS_REMEDY)
    assert not found.latest_if_none
    assert (found.min_partitions, found.max_records, found.max_bytes) == (None, None, None)


def test_names_have_any_case_as_spark_hands_them_over() -> None:
    found = parse_options(
        {
            "KAFKA.bootstrap.servers": "a:1, [::1]:2,PLAINTEXT://c.example:3",
            "subscribepattern": "t.*",
            "MAXRECORDSPERPARTITION": "5",
            "minpartitions": " 7 ",
            "maxBytesPerPartition": "9",
            "includeheaders": "TRUE",
            "failondataloss": "false",
            "kafkaconsumer.polltimeoutms": "1500",
            "path": "",
        }
    )
    assert found.servers == (Address("a", 1), Address("::1", 2), Address("c.example", 3))
    assert (found.topics, found.pattern, found.partitions) == (None, "t.*", None)
    assert (found.min_partitions, found.max_records, found.max_bytes) == (7, 5, 9)
    assert found.columns == COLUMNS
    assert (found.fetch_terms.fails_on_loss, found.fetch_terms.stall_s) == (False, 1.5)


def test_settings_of_kafka_s_consumer_are_kept() -> None:
    found = parse(
        kafka__client__id="me",
        kafka__isolation__level="read_committed",
        kafka__fetch__max__bytes="10",
        kafka__max__partition__fetch__bytes="11",
        kafka__fetch__min__bytes="12",
        kafka__fetch__max__wait__ms="13",
        kafka__check__crcs="false",
        kafka__retry__backoff__ms="14",
        kafka__request__timeout__ms="15000",
        kafka__default__api__timeout__ms="16000",
        kafka__socket__connection__setup__timeout__ms="17000",
    )
    assert found.fetch_terms == FetchTerms(
        10, 11, 12, 13, is_read_committed=True, checks_crcs=False, backoff_s=0.014, loss_remedy=LOSS_REMEDY
    )
    assert (found.terms.client_id, found.terms.request_timeout_s, found.terms.connect_timeout_s) == ("me", 15, 17)
    assert found.api_timeout_s == 16


def test_a_timestamp_counts_before_timestamps_by_partition_and_these_before_offsets() -> None:
    offsets, times = '{"t": {"0": 5, "1": -2}}', '{"t": {"0": 7}}'
    assert parse(startingOffsets=offsets).start == Edge(
        "startingOffsets", offsets, offsets={Partition("t", 0): 5, Partition("t", 1): EARLIEST}
    )
    by_time = parse(startingOffsets=offsets, startingOffsetsByTimestamp=times).start
    assert by_time == Edge("startingOffsetsByTimestamp", times, timestamps={Partition("t", 0): 7})
    everywhere = parse(startingOffsets=offsets, startingOffsetsByTimestamp=times, startingTimestamp="9").start
    assert everywhere == Edge("startingTimestamp", "9", timestamp=9)
    assert parse(endingTimestamp="9", endingOffsets="latest").end == Edge("endingTimestamp", "9", timestamp=9)


def test_partitions_can_be_assigned() -> None:
    found = parse_options({"kafka.bootstrap.servers": "a:1", "assign": '{"t": [2, 0], "a": [1]}'})
    assert found.partitions == (Partition("a", 1), Partition("t", 0), Partition("t", 2))


def test_columns_are_made_in_the_order_that_is_asked_for() -> None:
    assert parse(columns="Value, offset,headers").columns == ("value", "offset", "headers")
    assert parse(columns="offset", valueFormat="binary").columns == ("offset",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"subscribes": "t"},
            "option subscribes=t: format esp does not know it: remove it. It knows assign, columns, ",
        ),
        ({"path": "/data"}, "option path=/data: there are no files"),
        (
            {"kafka.group.id": "g"},
            "option kafka.group.id=g: it has no effect on format esp: remove it. It knows kafka.boot",
        ),
        ({"kafka.bootstrap.servers": " "}, "option kafka.bootstrap.servers= : it says where the cluster is"),
        ({"kafka.bootstrap.servers": " , "}, "option kafka.bootstrap.servers= , : it says where the cluster is"),
        ({"kafka.bootstrap.servers": "a"}, "option kafka.bootstrap.servers=a: a is no address: write host:port"),
        ({"kafka.bootstrap.servers": "a:0"}, "option kafka.bootstrap.servers=a:0: a:0 is no address"),
        ({"subscribePattern": "t"}, "one of them says what is read, and subscribe and subscribePattern is given"),
        ({"subscribe": " , "}, "option subscribe= , : it names no topic"),
        ({"startingOffsets": "latest"}, "option startingOffsets=latest: a batch cannot begin at the latest offset"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "a batch cannot begin at the latest offset"),
        ({"endingOffsets": "earliest"}, "option endingOffsets=earliest: a batch cannot end at the earliest offset"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "a batch cannot end at the earliest offset"),
        ({"startingOffsets": "first"}, "option startingOffsets=first: it is not JSON: write {"),
        ({"startingOffsets": "[1]"}, "it is not an object of JSON"),
        ({"startingOffsets": "{}"}, "it names no partition"),
        ({"startingOffsets": '{"t": [1]}'}, "topic t has no partitions with numbers"),
        ({"startingOffsets": '{"t": {"x": 1}}'}, "'x' of topic t is no partition"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "partition 0 of topic t has -3: write 0 or more, -1 (latest) or -2"),
        ({"startingOffsets": '{"t": {"0": 1.5}}'}, "partition 0 of topic t has 1.5"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "partition 0 of topic t has True"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "has -1: write milliseconds, 0 or more"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp=yesterday: write a whole number, milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "Strategy=guess: write error or latest"),
        ({"minPartitions": "0"}, "option minPartitions=0: write a whole number, 1 or more"),
        ({"minPartitions": "9" * 5000}, "write a whole number, 1 or more"),
        ({"startingOffsets": "[" * 100_000}, "it is not JSON: write {"),
        ({"startingOffsets": '{"t": {"' + "9" * 5000 + '": 1}}'}, "of topic t is no partition"),
        ({"maxRecordsPerPartition": "-5"}, "option maxRecordsPerPartition=-5: write a whole number"),
        ({"maxBytesPerPartition": "1MB"}, "option maxBytesPerPartition=1MB: write a whole number"),
        ({"includeHeaders": "yes"}, "option includeHeaders=yes: write true or false"),
        ({"failOnDataLoss": ""}, "option failOnDataLoss=: write true or false"),
        ({"columns": "value,size"}, "option columns=value,size: there is no column 'size': write some of key, value,"),
        ({"columns": ""}, "there is no column ''"),
        ({"columns": "value,VALUE"}, "it names value twice"),
        ({"columns": "value", "includeHeaders": "true"}, "includeHeaders is true and headers is not among them"),
        (
            {"columns": "key,\noffset", "valueFormat": "string"},
            "option valueFormat=string: it makes columns in the place of value, which columns=key,offset lacks: add value there, or remove",
        ),
        ({"kafka.isolation.level": "serializable"}, "write read_uncommitted or read_committed"),
        ({"kafka.fetch.max.bytes": "many"}, "option kafka.fetch.max.bytes=many: write a whole number, 0 or more"),
        ({"kafka.request.timeout.ms": "0"}, "option kafka.request.timeout.ms=0: write a whole number, 1 or more"),
        ({"kafka.socket.connection.setup.timeout.ms": "0"}, "timeout.ms=0: write a whole number, 1 or more"),
        ({"kafka.fetch.max.bytes": "4294967296"}, "option kafka.fetch.max.bytes=4294967296: write a whole number"),
        (
            {"kafka.security.protocol": "TLS"},
            "option kafka.security.protocol=TLS: there is no such protocol: write PLAIN",
        ),
        (
            {"kafka.ssl.truststore.location": "x"},
            "it has no effect while kafka.security.protocol is PLAINTEXT: write SSL",
        ),
        (
            {"kafka.security.protocol": "SASL_SSL"},
            "option kafka.sasl.mechanism: kafka.security.protocol=SASL_SSL needs it",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_value_and_a_remedy(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)) as caught:
        parse_options(LEAST | options)
    assert "\n" not in str(caught.value)


def test_no_server_and_nothing_to_read_are_errors() -> None:
    with pytest.raises(OptionError, match=r"option kafka\.bootstrap\.servers: it says where the cluster is"):
        parse_options({"subscribe": "t"})
    with pytest.raises(OptionError, match="none of them is given: give one"):
        parse_options({"kafka.bootstrap.servers": "a:1"})
    with pytest.raises(OptionError, match="it is no regular expression of Python"):
        parse_options({"kafka.bootstrap.servers": "a:1", "subscribePattern": "("})
    with pytest.raises(OptionError, match="topic t has no list of partitions"):
        parse_options({"kafka.bootstrap.servers": "a:1", "assign": '{"t": ["0"]}'})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.mechanism": "GSSAPI", "sasl.jaas.config": SCRAM}, "this client does not have it: write PLAIN or SCRAM"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM}, "its login module is not the one of PLAIN"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM * 2}, "option kafka.sasl.jaas.config: "),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM, "sasl.login.class": "x"}, "kafka.sasl.login.class: "),
    ],
)
def test_log_ins_that_cannot_be_are_told_without_a_password(settings: dict[str, str], words: str) -> None:
    given = {f"kafka.{name}": value for name, value in settings.items()}
    with pytest.raises(OptionError, match=words) as caught:
        parse_options(LEAST | {"kafka.security.protocol": "SASL_PLAINTEXT"} | given)
    assert "hidden" not in str(caught.value)


def test_a_log_in_is_read_and_shows_no_password() -> None:
    found = parse(
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="SCRAM-SHA-512",
        kafka__sasl__jaas__config=SCRAM,
    )
    login = found.terms.security.login
    assert login is not None
    assert (login.username, login.password, login.mechanism.value) == ("u", "hidden", "SCRAM-SHA-512")
    assert not login.is_token
    assert "hidden" not in repr(found)


def test_a_log_in_may_be_by_a_delegation_token() -> None:
    found = parse(
        kafka__security__protocol="SASL_SSL",
        kafka__sasl__mechanism="SCRAM-SHA-256",
        kafka__sasl__jaas__config=SCRAM.replace(";", ' tokenauth="true";'),
    )
    login = found.terms.security.login
    assert login is not None
    assert login.is_token


# Streams ----------------------------------------------------------------------------------------------------------------------------


def parse_stream(**options: str) -> ReadOptions:
    return parse_options(LEAST | options, Kind.STREAM)


def test_a_stream_begins_at_the_latest_offset_and_has_no_end_nor_limit() -> None:
    found = parse_stream()
    assert found.start.everywhere == LATEST
    assert found.end is None
    assert (found.limits.min_offsets, found.limits.are_set) == (None, False)
    assert (found.on_recreated, found.group_id) == (None, None)


def test_a_stream_may_begin_at_the_latest_offset_of_a_partition_and_end_at_the_latest() -> None:
    found = parse_stream(startingOffsets='{"t": {"0": -1}}', endingOffsets="latest")
    assert found.start.offsets == {Partition("t", 0): LATEST}
    assert found.end == Edge("endingOffsets", "latest", everywhere=LATEST)


def test_limits_of_micro_batches_are_read() -> None:
    found = parse_stream(
        minOffsetsPerTrigger="5",
        maxTriggerDelay="2m",
        maxOffsetsPerTrigger="7",
        maxBytesPerTrigger="9",
        maxTimePerTrigger="1 hour",
        onTopicRecreated="Latest",
        groupId="g",
    )
    assert found.limits == Limits(5, 120_000, 7, 9, 3_600_000)
    assert (found.on_recreated, found.group_id) == (OnRecreated.LATEST, "g")
    assert parse_stream(minOffsetsPerTrigger="5").limits.max_delay_ms == 15 * 60_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger=0: write a whole number, 1 or more"),
        ({"minOffsetsPerTrigger": "few"}, "option minOffsetsPerTrigger=few: write a whole number, 1 or more"),
        ({"maxBytesPerTrigger": "1GB"}, "option maxBytesPerTrigger=1GB: write a whole number, 1 or more"),
        ({"maxTimePerTrigger": "0s"}, "option maxTimePerTrigger=0s: it does not last: write 1ms or more"),
        ({"maxTimePerTrigger": "long"}, "option maxTimePerTrigger=long: it is no duration: write a whole number with"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "option minOffsetsPerTrigger=9: it is more than maxOffsetsPerTrigger=8: write 8 or less",
        ),
        ({"maxTriggerDelay": "1m"}, "option maxTriggerDelay=1m: it bounds the wait for minOffsetsPerTrigger, which"),
        ({"onTopicRecreated": "go"}, "option onTopicRecreated=go: write fail or earliest or latest"),
        ({"groupId": " "}, "option groupId= : it is empty: write the name of a group"),
        ({"endingOffsets": "earliest"}, "option endingOffsets=earliest: a stream cannot end at the earliest offset"),
    ],
)
def test_what_a_stream_cannot_use_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)) as caught:
        parse_options(LEAST | options, Kind.STREAM)
    assert "\n" not in str(caught.value)
    with pytest.raises(OptionError):
        parse_options(LEAST | options, Kind.ANY)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "maxTriggerDelay", "onTopicRecreated", "groupId"])
def test_an_option_of_streams_is_refused_in_a_batch(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}=1: it has an effect on streams only"):
        parse(**{name: "1"})
    with pytest.raises(OptionError, match="a batch cannot begin at the latest offset"):
        parse(startingOffsets="latest")
    parse_options(LEAST | {"startingOffsets": "latest", "maxOffsetsPerTrigger": "1"}, Kind.ANY)
