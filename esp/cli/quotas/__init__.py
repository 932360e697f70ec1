"""`esp quotas`: quotas of clients, listed, set and removed, and the clients that they hold."""
