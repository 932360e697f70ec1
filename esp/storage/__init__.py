"""The append-only log of one partition, and all logs of a data directory; synchronous, through the Disk port only."""
