"""The real bodies of the seams: the system's clock, files, sockets, threads, worker processes."""
