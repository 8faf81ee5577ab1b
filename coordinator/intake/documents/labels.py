"""Labels and annotations that pods of a Job get, by the names that Volcano gives them."""

from __future__ import annotations

JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
QUEUE_LABEL = "volcano.sh/queue-name"
TASK_INDEX = "volcano.sh/task-index"
