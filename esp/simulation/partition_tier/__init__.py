"""The tier of one partition: the cores of :mod:`esp.replication` and :mod:`esp.controller` on a heap of events, by seed."""
