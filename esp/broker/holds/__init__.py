"""The positions of consumer groups, for the leaders of partitions that these hold: coordinators are asked, here and at other nodes."""
