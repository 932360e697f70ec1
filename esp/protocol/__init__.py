"""Kafka's wire protocol without a socket: frames, the registry of APIs, the reader of peers' bytes, codecs."""
