"""Seeds of the whole service with its Kubernetes driver, on virtual time (docs/decisions/0108).

The coordinators are those of ``simulation``, with all their loops; their cluster is followed by the
real driver: its lists, watches and writes go as HTTP over connections in virtual time to the double
of the API server (``api_server``), where hollow kubelets run what is bound.

=================  =============================================================================
``connections``    bytes between processes: late, in order; reset when an end is killed
``loop``           the event loop of a process that connects
``api_process``    the API server's process; ``server_faults``: what befalls it and its answers
``followed``       what a coordinator follows the cluster by; the history's side of the cluster
``load``           what users do, by seed
``kubelets``       hollow kubelets, and who collects the pods of nodes that are gone
``play``           one seed from its first event to the checker's judgement
=================  =============================================================================
"""
