"""The shell of a node: listeners, one handler module per API, and the drivers of the pure cores."""
