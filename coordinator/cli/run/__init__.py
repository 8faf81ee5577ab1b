"""The command that starts everything: up."""
