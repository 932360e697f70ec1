"""The quotas of clients at a node: what they use is counted, answers say how long they are throttled, and their connections are muted."""
