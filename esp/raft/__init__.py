"""The metadata quorum: KRaft's pull-based Raft as a pure core."""
