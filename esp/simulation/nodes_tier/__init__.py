"""The tier of whole nodes: a cluster of real nodes on simulated machines, its load, its faults and its ledger, by seed."""
