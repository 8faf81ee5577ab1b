"""Quadrant in the place of Volcano's scheduler, beside Volcano's own controllers."""
