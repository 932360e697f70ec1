"""Share coordinators on the partitions of ``__share_group_state`` that this node leads (KIP-932), and the way to those of other nodes."""
