"""The places of replicas: a pure planner for the controller and for tools."""
