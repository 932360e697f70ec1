"""A node as a member of the metadata quorum: the driver of :mod:`esp.raft`, its files, its messages and its connections."""
