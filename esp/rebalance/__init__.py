"""Moving partitions: plans as files, their executor and reports, over the admin API."""
