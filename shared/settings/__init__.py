"""The settings of every process, from environment and file."""
