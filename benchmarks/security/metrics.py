"""The figures of security, with their aims, in the order of the reports."""

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
TLS_CLUSTER_USER: Final = Metric("tls_cluster_user_s_per_gb", "Three nodes, all TLS, acks=all: user CPU per GB", "s", 2)
TLS_CLUSTER_ALL: Final = Metric(
    "tls_cluster_all_s_per_gb", "Three nodes, all TLS, acks=all: all CPU per GB", "s", 2, ratio_aim=0.5
)

OPEN_REQUEST: Final = Metric("open_request_us", "Small request without rules and quotas: all CPU", "µs", 1)
RULES_COST: Final = Metric("rules_cost_percent", "The same with rules and quotas: more", "%", 1, value_aim=5)
MANY_RULES_COST: Final = Metric(
    "many_rules_cost_percent", "The same with 10,000 more rules: more", "%", 1, value_aim=10
)
CHANGED_RULE: Final = Metric(
    "changed_rule_ms", "A changed rule counts on three nodes, after its answer", "ms", 1, value_aim=100
)
OPEN_START: Final = Metric("open_start_s", "Process start until ready, without `--secure`", "s", 2)
FIRST_SECURE_START: Final = Metric("first_secure_start_s", "First start with `--secure`: later", "s", 2, value_aim=0.2)
SECURE_START: Final = Metric("secure_start_s", "Further starts with `--secure`: later", "s", 2, value_aim=0.2)
FIRST_SECURE_CPU: Final = Metric("first_secure_cpu_s", "The same: more CPU", "s", 2)
SECURE_CPU: Final = Metric("secure_cpu_s", "The same: more CPU", "s", 2)
IDLE_TLS: Final = Metric("idle_tls_kb", "Idle connection over TLS, logged in: memory", "kB", 1, value_aim=40)

OWN_METRICS: Final = (
    OPEN_REQUEST,
    RULES_COST,
    MANY_RULES_COST,
    CHANGED_RULE,
    OPEN_START,
    FIRST_SECURE_START,
    FIRST_SECURE_CPU,
    SECURE_START,
    SECURE_CPU,
    IDLE_TLS,
)
"""The metrics of protection beside none, in the order of the report."""

SECURITY_METRICS: Final = (
    TLS_PRODUCE_USER,
    TLS_PRODUCE_ALL,
    TLS_CONSUME_USER,
    TLS_CONSUME_ALL,
    SECURE_REQUEST,
    GUARDED_REQUEST,
    LOG_IN,
    TLS_CLUSTER_USER,
    TLS_CLUSTER_ALL,
)
"""The metrics of protection, in the order of the report."""
