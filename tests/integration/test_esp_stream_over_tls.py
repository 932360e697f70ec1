"""A stream by the data source ``esp`` outlives the certificate of its client. Here without a JVM."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from kafka import KafkaProducer

from esp.testing.pytest_plugin import NodeFactory
from tests.integration.conftest import eventually
from tests.integration.stream_rows import Checkpoint, Run
from tests.integration.test_tls import Identities, make_topic

LIFE_S = 6


def test_a_stream_goes_on_with_the_renewed_certificate_of_its_client(fresh_node: NodeFactory, tmp_path: Path) -> None:
    identities = Identities(tmp_path)
    node = fresh_node(identities.settings)
    make_topic(node.bootstrap, identities, "t")
    own = tmp_path / "stream.pem"
    ends = (datetime.now(UTC) + timedelta(seconds=LIFE_S)).replace(microsecond=0)  # as a certificate says it
    identities.authority.issue("CN=stream", ends=ends).write_pem(own)
    options = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(identities.trusted),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(own),
        "subscribe": "t",
        "startingOffsets": "earliest",
    }
    producer = KafkaProducer(bootstrap_servers=node.bootstrap, **identities.kafka_python)
    run = Run(node.bootstrap, Checkpoint(), **options)
    for number in range(2):
        producer.send("t", b"%d" % number).get(30)
        assert [row.value for row in run.batch()] == [b"%d" % number]
        if number == 0:
            identities.authority.issue("CN=stream").write_pem(own)
            eventually(lambda: "of CN=stream: a certificate of its chain has ended" in node.output, LIFE_S + 20)
            assert datetime.now(UTC) >= ends
    producer.close()
