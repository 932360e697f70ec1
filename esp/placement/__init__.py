"""Where replicas go: a pure planner for the controller and for tools."""
