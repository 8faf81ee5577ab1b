"""The page: its frames and files, and its views in a real browser."""
