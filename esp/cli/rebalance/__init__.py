"""`esp rebalance`: plans for moving partitions, shown, carried out and steered."""
