"""Commands over objects: get, describe, apply, delete, diff, wait, events."""
