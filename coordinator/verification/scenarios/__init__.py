"""Seeded scenarios: made, played, judged, shrunk, and run by the thousand."""
