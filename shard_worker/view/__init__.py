"""A worker's view: all nodes as columns, the hyper node tree, and the reasons why nodes refuse
tasks."""
