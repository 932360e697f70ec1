"""The data pipeline: PySpark jobs that know ESP only as a Kafka address."""
