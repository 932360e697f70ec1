"""``esp certs``: an authority of a cluster's own, and the certificates of its nodes and clients."""
