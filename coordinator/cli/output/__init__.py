"""What commands print: tables, colours, progress, times and durations in words."""
