"""JSON and YAML within bounds."""
