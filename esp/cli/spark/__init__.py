"""``esp spark``: what belongs to queries of Spark and is looked at from outside of Spark."""
