"""Changes of topics under readers: created again, and grown."""

from kafka.admin import KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError

from tests.integration.conftest import eventually


def recreate(admin: KafkaAdminClient, topic: str, partitions: int) -> None:
    """Delete the topic and create it anew, empty."""
    admin.delete_topics([topic])

    def created() -> bool:
        try:
            admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return False  # its deletion is not through yet
        return True

    eventually(created, 30)


def add_partitions(admin: KafkaAdminClient, topic: str, partitions: int) -> None:
    """Let the topic grow to so many partitions, and wait until clients are told of them."""
    admin.create_partitions({topic: partitions})
    eventually(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == partitions, 30)
