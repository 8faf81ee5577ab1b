"""What is checked, and what is said of a history."""
