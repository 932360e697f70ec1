"""What TLS, log-ins, rules of access and quotas cost."""
