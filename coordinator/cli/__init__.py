"""The command ``quadrant``, and ``kubectl quadrant``.

``catalogue`` names all subcommands without importing them; each stands in the folder of its topic.
"""
