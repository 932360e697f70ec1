"""The permissions of clients: the node's rules of access, the checks of each API, and the answers to requests that are denied."""
