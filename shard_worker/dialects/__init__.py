"""Policy dialects, one folder each: actions and plugins on top of the shared engine.

``open_session`` creates the plugins that a policy names. KAI will be a folder beside ``volcano``.
"""
