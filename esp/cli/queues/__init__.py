"""``esp queues``: share groups described, the records at their front shown, and their dead letters sent again."""
