"""The command line: a module for each command, or a room where a command has several."""
