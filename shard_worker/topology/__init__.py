"""Placement by network topology: searches the domains of hyper nodes from the closest tier up."""
