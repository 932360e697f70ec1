"""Leader and followers of one partition, pure: what may be appended, what is committed, who is in sync."""
