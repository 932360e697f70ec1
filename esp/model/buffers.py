"""Bytes on their way: received, stored, sent."""

Buffer = bytes | bytearray | memoryview
"""Any object that holds bytes. A view may be of a mapped file: code that reads a buffer works with each of the three."""
