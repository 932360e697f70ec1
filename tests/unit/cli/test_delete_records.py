import pytest

from esp.cli.app import run_tools
from esp.cli.delete_records import ALL_COMMITTED, parse_before, parse_offsets
from esp.cli.kafka.answers import PartitionId
from esp.model.errors import OperatorError


def test_file_is_that_of_kafka_s_tool():
    text = '{"partitions":[{"topic":"t","partition":1,"offset":7},{"topic":"u","partition":0,"offset":-1}],"version":1}'
    assert parse_offsets(text, "f") == {PartitionId("t", 1): 7, PartitionId("u", 0): ALL_COMMITTED}
    assert parse_offsets('{"partitions":[{"topic":"t","partition":1,"offset":7}]}', "f")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"partitions":[]}',
        '{"partitions":[{"topic":"t","partition":1}]}',
        '{"partitions":[{"topic":"t","partition":1,"offset":7}],"version":2}',
        '{"partitions":[{"topic":"t","partition":1,"offset":7},{"topic":"t","partition":1,"offset":8}]}',
        '{"partitions":[{"topic":"t","partition":1,"offset":-2}]}',
        '{"partitions":[{"topic":"t","partition":-1,"offset":2}]}',
    ],
)
def test_file_that_is_none_is_refused_by_its_name(text):
    with pytest.raises(OperatorError, match=r"^f: "):
        parse_offsets(text, "f")


def test_offset_is_a_number_or_all():
    assert (parse_before("12"), parse_before("all")) == (12, ALL_COMMITTED)
    for text in ("-1", "x", ""):
        with pytest.raises(OperatorError):
            parse_before(text)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "--offset-json-file or --topic"),
        (["--topic", "t", "--offset-json-file", "f"], "--offset-json-file or --topic"),
        (["--topic", "t"], "--before"),
        (["--offset-json-file", "f", "--partition", "1"], "--topic"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, arguments, word):
    assert run_tools(["delete-records", *arguments]) == 1
    assert word in capsys.readouterr().err
