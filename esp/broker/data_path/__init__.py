"""Produce and Fetch on their way between a request handler and the logs: waiting requests, repeated ones, recompression."""
