"""The data pipeline: PySpark jobs that know ESP only as a Kafka address.

``feed_flights`` plays a year of flights into a topic, ``flight_delays`` is the Structured Streaming job over it,
``flight_report`` checks and draws what came out, and ``run`` does all three in a row against a broker that it starts.
The jobs run unchanged on any Kafka cluster and any Spark cluster. Nothing here imports ``esp`` but ``with_esp``, and that only for
``--source esp``, ``--exactly-once`` and ``--watch``.
"""
