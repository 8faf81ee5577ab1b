"""One policy dialect to a folder: its actions and plugins, over the shared engine.

``open_session`` makes the plugins that a policy names. KAI will stand beside ``volcano``.
"""
