"""Dynamic resource allocation (DRA): pools of devices, claims, and the search for devices."""
