"""The result of a turn without doing it: for explanations and plans."""
