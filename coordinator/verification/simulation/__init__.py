"""The seeded run: coordinator, workers, ledger and cluster in one process, on virtual time.

Everything that decides is the production code: the coordinator's state machine, the workers', the
ledger's rules (its double), the simulated kubelets, intake. Only what carries messages is replaced:
each message takes a delay drawn from the seed, so that messages overtake each other, workers plan
on old views, outcomes arrive after the tasks they speak of have ended. Some are lost, some arrive
twice, some die with their sender. Every role dies, stands still or is away; coordinators are
succeeded by one that knows only what the ledger holds. The same seed repeats the run to the last
event.

=================  ==============================================================================
``generate``       from a seed to a ``scenario``: ``workload``, ``churn``, what goes wrong
``play``           builds a run from it, holds its end to the rules of ``verdict``
``run``            the loop over virtual time, the coordinators and what befalls everybody
``life``           a coordinator: ``candidate`` until it leads, then ``books``, ``binding``,
                   ``reconciling``, and ``shards``: its workers, each a ``worker``
``process``        what may die or stand still; ``timeline``: time, chance, and the messages
``campaign``       many seeds; ``shrink`` makes a failing one small
=================  ==============================================================================
"""
