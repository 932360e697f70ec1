"""The cluster as clients are told of it: the newest image that this node has applied, and whether the brokers in it are alive."""
