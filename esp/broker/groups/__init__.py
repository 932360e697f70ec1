"""The drivers of the groups' coordinators: their partitions are read, written and watched here; `esp.groups` makes their decisions."""
