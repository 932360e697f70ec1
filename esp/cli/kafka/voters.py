"""Voters of the metadata quorum are added and removed (KIP-853), on a connection of its own: kafka-python knows neither request."""

from datetime import timedelta
from typing import Final

from kio.schema.add_raft_voter.v0.request import AddRaftVoterRequest, Listener
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.static.primitive import i32, i32Timedelta, u16

from esp.cli.kafka.brokers import call
from esp.cli.kafka.client import check_code
from esp.raft.voters import Voter, VoterKey

_TIMEOUT: Final = timedelta(seconds=30)


def add_voter(servers: str, voter: Voter) -> None:
    """Let a node vote that runs and observes; through any broker. Returns when the change is committed.

    Raises:
        RefusedError: the quorum's leader refused.
        OperatorError: no broker answers.
    """
    answer = call(
        servers,
        AddRaftVoterRequest(
            cluster_id=None,
            timeout=i32Timedelta.parse(_TIMEOUT),
            voter_id=i32(voter.key.node_id),
            voter_directory_id=voter.key.directory_id,
            listeners=tuple(
                Listener(name=each.listener, host=each.host, port=u16(each.port)) for each in voter.endpoints
            ),
        ),
    )
    check_code(answer.error_code.value, answer.error_message)


def remove_voter(servers: str, key: VoterKey) -> None:
    """Take a vote away; through any broker.

    Raises:
        RefusedError: the quorum's leader refused.
        OperatorError: no broker answers.
    """
    answer = call(
        servers,
        RemoveRaftVoterRequest(cluster_id=None, voter_id=i32(key.node_id), voter_directory_id=key.directory_id),
    )
    check_code(answer.error_code.value, answer.error_message)
