"""`esp doctor`: looks at a cluster, judges it by `esp.doctor`, and tells."""
