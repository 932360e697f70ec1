"""The settings of a node by subject, as fields of `BrokerSettings`.

Each class is a part of :class:`esp.settings.broker.BrokerSettings`, and only that is ever made: the parts have no generated methods, which
would cost time at the start of a node.
"""
