"""Kafka's wire protocol without a socket: the registry of APIs, headers, the reader of peers' bytes, codecs."""
