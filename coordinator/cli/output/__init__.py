"""Output of commands: tables, colours, progress, times and durations in words."""
