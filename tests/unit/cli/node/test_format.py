import pytest

from esp.broker.formatting import first_metadata_blocking
from esp.cli.node.format import parse_initial_controllers, print_random_uuid, random_uuid, run
from esp.controller.bootstrap import FIRST_LEVELS, FIRST_METADATA
from esp.controller.snapshot_records import scram_credential_record
from esp.model.errors import OperatorError
from esp.model.ids import uuid_from_base64, uuid_to_base64
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential
from esp.raft.snapshot import read_voters
from esp.raft.voters import VoterEndpoint
from esp.runtime.env import real_env
from esp.storage.meta_properties import read_meta_properties

CLUSTER = "abcdefghijklmnopqrstuv"
FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
VOTERS = f"1@127.0.0.1:9093:{FIRST},2@[::1]:9094:{SECOND}"
DYNAMIC = (
    "--set=listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "--set=controller.quorum.bootstrap.servers=127.0.0.1:9093,[::1]:9094",
)


def do(tmp_path, *arguments, cluster=CLUSTER):
    return run(["--cluster-id", cluster, "--data-dir", str(tmp_path / "data"), *arguments])


def meta(tmp_path, name="data"):
    return read_meta_properties(real_env().disk, f"{tmp_path}/{name}/meta.properties")


def snapshot(tmp_path):
    return tmp_path / "data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def test_initial_controllers_are_written_with_the_directory_id_of_this_one(tmp_path, capsys):
    assert do(tmp_path, *DYNAMIC, "--initial-controllers", VOTERS) == 0
    assert "Formatting dynamic metadata voter directory" in capsys.readouterr().out
    assert meta(tmp_path).cluster_id == CLUSTER
    assert uuid_to_base64(meta(tmp_path).directory_id) == FIRST
    voters = read_voters(snapshot(tmp_path).read_bytes()).voters
    assert [uuid_to_base64(voter.key.directory_id) for voter in voters] == [FIRST, SECOND]
    assert voters[1].endpoints == (VoterEndpoint("CONTROLLER", "::1", 9094),)


def test_a_standalone_controller_is_the_only_voter(tmp_path):
    assert do(tmp_path, *DYNAMIC, "--standalone") == 0
    (voter,) = read_voters(snapshot(tmp_path).read_bytes()).voters
    assert voter.key.directory_id == meta(tmp_path).directory_id
    assert voter.endpoints == (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),)


def test_a_node_that_joins_knows_no_voters(tmp_path, capsys):
    assert do(tmp_path, *DYNAMIC, "--no-initial-controllers") == 0
    assert "Formatting metadata directory" in capsys.readouterr().out
    assert not snapshot(tmp_path).exists()


def test_static_voters_need_no_flag_and_take_none(tmp_path, capsys):
    static = (DYNAMIC[0], "--set=controller.quorum.voters=1@127.0.0.1:9093,2@b:9093")
    assert do(tmp_path, *static, "--standalone") == 1
    assert "You cannot specify controller.quorum.voters" in capsys.readouterr().err
    assert do(tmp_path, *static) == 0
    assert not snapshot(tmp_path).exists()


def test_a_broker_needs_no_flag(tmp_path):
    broker = ("--set=process.roles=broker", "--set=controller.quorum.bootstrap.servers=a:9093")
    assert do(tmp_path, *broker) == 0
    assert meta(tmp_path).cluster_id == CLUSTER


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "you must specify one of the following: --standalone"),
        (("--initial-controllers", f"2@a:1:{FIRST}"), "does not name node 1"),
        (("--initial-controllers", f"1@a:1:{FIRST},1@b:1:{SECOND}"), "Node id 1 was specified more than once"),
        (("--initial-controllers", "1@a:1:xx"), "1 bytes instead of 16"),
        (("--initial-controllers", "1@a:1"), "host:port"),
        (("--initial-controllers", "one"), "not of that form"),
        (("--initial-controllers", f"1@a:99999:{FIRST}"), "host:port"),
        (
            (
                "--set=process.roles=broker",
                "--set=controller.quorum.bootstrap.servers=a:1",
                "--set=listeners=PLAINTEXT://:1",
                "-s",
            ),
            "only use --standalone on a controller",
        ),
        (("--config", "/does/not/exist", "-s"), "/does/not/exist"),
        (("--set", "num.partitions=x", "-s"), "num.partitions"),
    ],
)
def test_what_cannot_be_formatted_is_told_and_nothing_is_written(tmp_path, capsys, arguments, word):
    listeners = () if "process.roles" in str(arguments) else DYNAMIC
    assert do(tmp_path, *listeners, *arguments) == 1
    told = capsys.readouterr().err
    assert word in told
    assert told.startswith("esp format: ")
    assert not (tmp_path / "data").exists()


def test_an_empty_cluster_id_is_refused(tmp_path, capsys):
    assert do(tmp_path, "-s", cluster=" ") == 1
    assert "esp random-uuid" in capsys.readouterr().err


def test_what_is_formatted_is_left_alone(tmp_path, capsys):
    do(tmp_path, *DYNAMIC, "-s")
    before = meta(tmp_path)
    assert do(tmp_path, *DYNAMIC, "-s") == 1
    assert "--ignore-formatted" in capsys.readouterr().err
    assert do(tmp_path, *DYNAMIC, "-s", "-g") == 0
    assert "All of the log directories are already formatted." in capsys.readouterr().out
    assert do(tmp_path, *DYNAMIC, "-s", "-g", cluster="another") == 1
    assert f"belongs to cluster {CLUSTER}" in capsys.readouterr().err
    assert meta(tmp_path) == before


def test_the_marker_of_an_orderly_stop_survives_a_needless_format(tmp_path):
    do(tmp_path, *DYNAMIC, "-s")
    marker = tmp_path / "data/.kafka_cleanshutdown"
    marker.write_text('{"version":0,"brokerEpoch":5}')
    assert do(tmp_path, *DYNAMIC, "-s", "-g") == 0
    assert marker.exists()


def test_a_directory_that_is_added_joins_the_others(tmp_path):
    do(tmp_path, *DYNAMIC, "-s")
    both = f"--set=log.dirs={tmp_path}/data,{tmp_path}/more"
    assert do(tmp_path, *DYNAMIC, both, "-s", "-g") == 0
    assert meta(tmp_path, "more").cluster_id == CLUSTER


def test_ids_are_those_that_kafka_takes(capsys):
    assert print_random_uuid([]) == 0
    text = capsys.readouterr().out.strip()
    assert len(text) == 22
    uuid_from_base64(text)
    assert not any(random_uuid().startswith("-") for _ in range(300))


def test_blanks_between_controllers_are_no_matter():
    assert len(parse_initial_controllers(VOTERS.replace(",", ", "), "CONTROLLER").voters) == 2
    with pytest.raises(OperatorError):
        parse_initial_controllers("", "CONTROLLER")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_features_are_written_for_the_first_controller(tmp_path, level):
    assert do(tmp_path, *DYNAMIC, "--standalone", "--feature", f"transaction.version={level}") == 0
    levels = first_metadata_blocking(real_env(), str(tmp_path / "data")).levels
    assert levels == {**FIRST_LEVELS, "transaction.version": level}


def test_without_the_flag_features_have_their_first_levels(tmp_path):
    assert do(tmp_path, *DYNAMIC, "--standalone") == 0
    assert first_metadata_blocking(real_env(), str(tmp_path / "data")) == FIRST_METADATA
    assert first_metadata_blocking(real_env(), str(tmp_path)) == FIRST_METADATA


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no.such=1", "there is no feature 'no.such'"),
        ("kraft.version=1", "there is no feature 'kraft.version'"),
        ("transaction.version", "'' is no level"),
        ("transaction.version=3", "'3' is no level"),
        ("transaction.version=-1", "'-1' is no level"),
        ("metadata.version=29", "'29' is no level"),
    ],
)
def test_feature_that_is_not_there_is_refused(tmp_path, capsys, text, problem):
    assert do(tmp_path, *DYNAMIC, "--standalone", "--feature", text) == 1
    assert problem in capsys.readouterr().err


def test_damaged_file_of_features_is_the_operator_s_to_repair(tmp_path):
    assert do(tmp_path, *DYNAMIC, "--standalone") == 0
    (tmp_path / "data" / "bootstrap.checkpoint").write_bytes(b"x" * 80)
    with pytest.raises(OperatorError, match="cannot be read"):
        first_metadata_blocking(real_env(), str(tmp_path / "data"))


def test_users_are_written_for_the_first_controller_and_nothing_secret_is_printed(tmp_path, capsys):
    user = "SCRAM-SHA-256=[name=alice,password=a password,salt=c2FsdA==]"
    assert do(tmp_path, *DYNAMIC, "--standalone", "--add-scram", user) == 0
    first = first_metadata_blocking(real_env(), str(tmp_path / "data"))
    credential = make_credential(ScramMechanism.SCRAM_SHA_256, "a password", b"salt", 16384)
    assert first == (FIRST_LEVELS, (scram_credential_record("alice", ScramMechanism.SCRAM_SHA_256, credential),))
    told = capsys.readouterr()
    assert "Formatting" in told.out
    assert "password" not in told.out + told.err


def test_a_user_of_another_form_is_refused_before_anything_is_written(tmp_path, capsys):
    assert do(tmp_path, *DYNAMIC, "--standalone", "--add-scram", "SCRAM-SHA-256=[name=alice]") == 1
    assert "--add-scram: there is no password" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
