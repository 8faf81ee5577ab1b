"""Schemas of metadata and of the envelopes around objects."""

META = """
ObjectMeta - What every object has beside its specification: its name, and who and when.
  name: string!              Unique in its namespace and kind; cannot be changed.
  namespace: string          Where it is; "default" where nothing is said. Absent in kinds that
    belong to the whole cluster.
  uid: string                Tells this object from an earlier one of the same name. Set by the
    server.
  labels: texts              Keys and values to select objects by.
  annotations: texts         Keys and values for tools. Some mean something here, as
    scheduling.k8s.io/group-name (the PodGroup of a pod), volcano.sh/task-spec (its role in it) and
    quadrant.dev/duration (seconds that a simulated pod runs).
  creationTimestamp: time    When it was created. Set by the server.
  deletionTimestamp: time    Since when it is being deleted. Set by the server.
  deletionGracePeriodSeconds: integer  How long its end may take. Kept and not looked at.
  finalizers: []string~      Who wants to act before it goes. Kept and not looked at.
  generateName: string       The beginning of a name that the server completes, where no name is
    written.
  generation: integer        Moves with every change of the specification. Set by the server.
  managedFields: []any       Who set which field, for server-side apply. Set by the server.
  ownerReferences: []any~uid  The objects it belongs to.
  resourceVersion: string    Moves with every change of anything in it. Set by the server; in an
    update it says which version was changed, and an older one is refused.
  selfLink: string           An old field without a meaning.

ListMeta - What every list has.
  resourceVersion: string    The version of the list; a watch can begin there.
  continue: string           Where the next page begins; absent on the last.
  remainingItemCount: integer  How many objects come after this page.
  selfLink: string           An old field without a meaning.

Condition - One statement about the state of an object.
  type: string!              What it is about.
  status: True|False|Unknown!  Whether it is so.
  reason: string             Why, in one word.
  message: string            Why, in a sentence.
  lastTransitionTime: time?  Since when it is so.
  lastProbeTime: time?       When it was last looked at.
  lastHeartbeatTime: time?   When it was last told.
  lastUpdateTime: time?      When it was last changed.
  transitionID: string       The scheduling session that said so.
  observedGeneration: integer  The generation of the object that was looked at.

Status (v1) - What became of a request that was not answered by an object.
  metadata: ListMeta         Of no meaning here.
  status: Success|Failure    Which of the two.
  message: string            What is wrong, and what to do about it.
  reason: string             The same in one word, for programs.
  details: any               The object it is about, each field that is wrong, when to come again.
  code: integer              The HTTP status.

DeleteOptions - How to delete.
  apiVersion: string         Always v1.
  kind: string               Always DeleteOptions.
  dryRun: []string           All: say what would happen, and do nothing.
  gracePeriodSeconds: integer  How long the end may take. Not looked at.
  orphanDependents: boolean  An old field: true is the policy Orphan.
  preconditions: any         uid and resourceVersion that the object must have.
  propagationPolicy: string  What becomes of the objects that belong to it. They always go too;
                             Orphan is refused where there may be some.
"""
