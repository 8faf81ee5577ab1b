"""Quadrant and a real API server: what it reads, what it writes, what it survives."""
