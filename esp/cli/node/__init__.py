"""The commands that run nodes: `esp broker`, `esp cluster`, `esp format`."""
