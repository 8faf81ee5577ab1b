"""Commands that start everything: up, demo, bench."""
