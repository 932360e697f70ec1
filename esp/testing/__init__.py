"""Support for the tests of ESP and of its users: nodes and clusters as processes, Apache Kafka beside them, and Kafka's tools."""
