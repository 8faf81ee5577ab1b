"""``quadrant lab``."""
