"""What is committed to the metadata log as images of the cluster, and the cluster as clients are told of it."""
