"""The active controller of a cluster: the driver of :mod:`esp.controller`."""
