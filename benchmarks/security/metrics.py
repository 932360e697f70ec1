"""The figures of security, with the aims of issue 20, in the order of the report."""

from typing import Final

from benchmarks.results import Metric

TLS_PRODUCE_USER: Final = Metric(
    "tls_produce_user_s_per_gb", "Produce over TLS: user CPU per GB", "s", 2, ratio_aim=0.6
)
TLS_PRODUCE_ALL: Final = Metric("tls_produce_all_s_per_gb", "Produce over TLS: all CPU per GB", "s", 2, ratio_aim=0.5)
TLS_CONSUME_USER: Final = Metric(
    "tls_consume_user_s_per_gb", "Consume over TLS: user CPU per GB", "s", 2, ratio_aim=0.8
)
TLS_CONSUME_ALL: Final = Metric("tls_consume_all_s_per_gb", "Consume over TLS: all CPU per GB", "s", 2, ratio_aim=0.85)
SECURE_REQUEST: Final = Metric(
    "secure_request_us", "Small request, SASL_SSL, rules and quotas: all CPU", "µs", 1, ratio_aim=0.55
)
GUARDED_REQUEST: Final = Metric(
    "guarded_request_us", "Small request, PLAINTEXT, rules and quotas: all CPU", "µs", 1, ratio_aim=0.55
)
LOG_IN: Final = Metric("log_in_ms", "Log-in over TLS by SCRAM-SHA-512, P-256: all CPU", "ms", 2, ratio_aim=0.5)

SECURITY_METRICS: Final = (
    TLS_PRODUCE_USER,
    TLS_PRODUCE_ALL,
    TLS_CONSUME_USER,
    TLS_CONSUME_ALL,
    SECURE_REQUEST,
    GUARDED_REQUEST,
    LOG_IN,
)
"""All of them, in the order of the report."""
