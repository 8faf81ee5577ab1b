"""Breaking things on purpose: on real processes, and what every way of doing it has to say."""
