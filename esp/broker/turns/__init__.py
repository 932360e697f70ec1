"""Fair shares of the loop: long requests in slices, holds on connections, bounds of memory and threads, and turns."""
