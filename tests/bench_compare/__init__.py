"""``make bench-compare``: does the working tree cost more processor time a task than a revision?"""
