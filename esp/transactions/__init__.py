"""Transactions: the decisions of the coordinator of transactional ids, without I/O."""
