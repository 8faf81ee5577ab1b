"""The command ``quadrant`` with everything: the service's subcommands and the laboratory's.

``catalogue`` names the subcommands without importing them; each stands in the folder of its topic.
"""
