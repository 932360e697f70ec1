"""The settings of nodes, topics and groups: each with name, type, range and default, and the typed values that the code reads."""
