"""The subcommands of the service: ``catalogue`` names them, and ``app`` makes a command of them.

Each stands in the folder of its topic, and is imported when it is called.
"""
