"""The costs of a node, measured beside Apache Kafka on the same machine in the same minutes.

``python -m benchmarks`` runs both brokers with their default settings, turn about, and writes a table, a chart and the raw figures into
``benchmarks/results``. ``python -m benchmarks.profile_broker`` tells where a node's time goes. Linux only: costs are read from ``/proc``.

The measure is the *broker's* CPU time, not the clock's: it says how much work a core can do, and other load on the machine changes it
little.
"""
