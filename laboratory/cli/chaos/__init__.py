"""Break things on purpose, and check the histories of runs."""
