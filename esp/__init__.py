"""ESP: an event-streaming platform that speaks Apache Kafka's protocol and keeps its file formats."""
