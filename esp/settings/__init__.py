"""The settings of nodes, topics and groups: each with name, type, range and default, and what the code asks of them."""
