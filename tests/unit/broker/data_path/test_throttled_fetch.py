"""Fetches of clients over their quota: no partitions, and nothing that a session would take the client to know."""

from types import SimpleNamespace

from esp.broker.data_path.fetch_sessions import FetchSessions
from esp.broker.data_path.pending_fetch import ConsumerReads, PendingFetch
from esp.broker.request import FetchVerdict
from esp.protocol.fetch_codec import FetchPartition, FetchResult, encode_fetch_response

WANTED = FetchPartition("t", 0, -1, 0, -1, -1, 1000)
RESULT = FetchResult("t", 0, 0, 9, 9, 0, b"records")


class Random:
    def __init__(self):
        self.last = 0

    def below(self, limit):
        self.last += 1
        return self.last


class Meter:
    def __init__(self, verdict):
        self.verdict = verdict
        self.sizes = []

    def charge_fetch(self, size):
        self.sizes.append(size)
        return self.verdict


def fetch(meter, session, sessions, *, incremental=False):
    request = SimpleNamespace(api_version=12, correlation_id=5, client=SimpleNamespace(meter=meter))
    made = PendingFetch(
        ConsumerReads(lambda _topic, _partition: None, lambda: True),
        request,
        [WANTED],
        session,
        incremental=incremental,
        min_bytes=1,
        max_bytes=100,
        cpu=None,
        close_session=sessions.close,
    )
    made._results = [RESULT]
    return made


def new_session():
    sessions = FetchSessions(Random(), 10)
    return sessions, sessions.open([WANTED], by_topic_id=False, now_us=0)


def test_what_is_within_the_quota_is_sent_and_counted():
    sessions, session = new_session()
    meter = Meter(FetchVerdict(0, is_sent=True))
    assert fetch(meter, session, sessions).encode() == encode_fetch_response(
        12, 5, [RESULT], session_id=session.session_id
    )
    assert meter.sizes == [7]


def test_a_batch_that_is_waited_for_afterwards_is_sent_with_the_time():
    sessions, _ = new_session()
    meter = Meter(FetchVerdict(700, is_sent=True))
    assert fetch(meter, None, sessions).encode() == encode_fetch_response(12, 5, [RESULT], throttle_ms=700)


def test_a_throttled_answer_of_a_session_keeps_its_news_for_the_next_one():
    sessions, session = new_session()
    throttled = fetch(Meter(FetchVerdict(700, is_sent=False)), session, sessions, incremental=True).encode()
    assert throttled == encode_fetch_response(12, 5, (), session_id=session.session_id, throttle_ms=700)
    made = fetch(Meter(FetchVerdict(0, is_sent=True)), session, sessions, incremental=True)
    made._results = [RESULT._replace(records=b"")]
    assert made.encode() == encode_fetch_response(12, 5, [RESULT._replace(records=b"")], session_id=session.session_id)


def test_a_session_that_would_begin_with_a_throttled_answer_is_none():
    sessions, session = new_session()
    throttled = fetch(Meter(FetchVerdict(700, is_sent=False)), session, sessions).encode()
    assert throttled == encode_fetch_response(12, 5, (), throttle_ms=700)
    assert len(sessions) == 0
