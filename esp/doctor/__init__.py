"""What may be wrong with a cluster, and what would happen if nodes of it died: pure judgements of a snapshot."""
