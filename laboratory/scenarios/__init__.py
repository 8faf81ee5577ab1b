"""Seeded scenarios: generated, played, judged, shrunk, and run by the thousand."""
