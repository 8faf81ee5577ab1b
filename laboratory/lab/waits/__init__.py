"""What each job of a played week waited for, and how long it was estimated to."""
