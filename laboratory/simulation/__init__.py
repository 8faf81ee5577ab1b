"""The seeded run: coordinator, workers, ledger and cluster in one process, on virtual time.

Everything that decides is the production code: the coordinator's state machine, the workers', the
ledger's client and scripts (on a server in memory), the simulated kubelets, intake; and so are the
service's own loops around them (docs/decisions/0046). Only what carries messages is replaced: each
message takes a delay drawn from the seed, so that messages overtake each other, workers plan on old
views, and outcomes arrive after the tasks they speak of have ended. Some are lost, some arrive
twice, some die with their sender. Every role dies, stands still or is away; coordinators are
succeeded by one that knows only what the ledger holds. The same seed repeats the run to the last
event.

===================  ============================================================================
``scenario``         what a run is made of, as values (:mod:`laboratory.scenarios`
                     draws them from seeds, plays them, and makes failing ones small)
``run``              the loop over virtual time, the coordinators, and the faults
``leader``           a coordinator from standing by to its death; ``service_edges``: the service's
                     loops that it runs; ``standby``: its lease; ``ledger_audit``
``workers``          its shard workers, each a ``worker``
``remote_ledger``,   how a process reaches the ledger and the cluster: by messages that are late,
``remote_cluster``   lost and repeated
``virtual_loop``     the event loop of a process; ``process``: what may die or stand still;
                     ``virtual_time``: the clock, the messages, and all that is random
``invariants``       what holds at the end; ``history``: what the checker reads
===================  ============================================================================
"""
