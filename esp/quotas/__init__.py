"""Quotas of clients: which one counts, rates in windows of samples, and throttle times. Pure; not loaded where there is no quota."""
