from esp.cli.kafka.answers import ConfigSynonym, ReplicaSize, config_entry, log_dir_info, source_name


def test_a_setting_is_told_with_its_sources_in_kafka_s_words():
    told = {
        "name": "retention.ms",
        "value": "5",
        "read_only": False,
        "config_source": 1,
        "is_sensitive": False,
        "synonyms": [{"name": "log.retention.ms", "value": None, "source": 5}],
    }
    entry = config_entry(told)
    assert (entry.name, entry.value, entry.source) == ("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG")
    assert entry.synonyms == (ConfigSynonym("DEFAULT_CONFIG", "log.retention.ms", None),)
    assert source_name(99) == "UNKNOWN"


def test_a_directory_is_told_with_its_replicas_in_order():
    def replica(number):
        return {"partition_index": number, "partition_size": 7, "offset_lag": 0, "is_future_key": False}

    told = {
        "error_code": 0,
        "log_dir": "/data",
        "topics": [{"name": "b", "partitions": [replica(1), replica(0)]}, {"name": "a", "partitions": [replica(0)]}],
    }
    found = log_dir_info(3, told)
    assert (found.broker, found.path, found.error, found.total_bytes) == (3, "/data", None, -1)
    assert found.replicas == tuple(
        ReplicaSize(topic, each, 7, 0, False) for topic, each in (("a", 0), ("b", 0), ("b", 1))
    )
    assert log_dir_info(3, {"error_code": 56, "log_dir": "/data", "topics": []}).error == "KAFKA_STORAGE_ERROR"
