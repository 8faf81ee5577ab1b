"""The page: its files, and the one stream that each open page reads."""
