"""The drivers of the coordinators of transactions, the sender of their markers, and the questions of partition leaders to them."""
