"""The health of a cluster, and the consequences of the death of some of its nodes: pure judgements of a snapshot."""
