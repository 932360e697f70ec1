"""The messages of the metadata quorum, Kafka's and the core's: each message's four translations stand side by side.

``encode_…_request`` and ``decode_…_response`` are for a member that asks, ``decode_…_request`` and ``encode_…_response`` for a member
that answers. All messages name one partition only, that of the metadata log; a request about anything else is refused before the core
sees it.
"""
