"""The tier of a metadata quorum: the cores of :mod:`esp.raft` on a heap of events, by seed."""
