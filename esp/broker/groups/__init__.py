"""What drives the coordinators of groups: their partitions are read, written and watched here, their decisions are made in `esp.groups`."""
