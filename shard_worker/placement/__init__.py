"""Where a task is placed: task classes over columns, the gradient L1 to L4, statements, the task
loop.

``task_class`` evaluates all nodes for a class of tasks, ``gradient`` chooses the level.
"""
