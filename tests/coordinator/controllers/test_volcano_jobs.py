"""Jobs with the fields of Volcano's own 21 examples: each is taken as written, what is only kept is
told by a warning, and all that can run does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from shared.manifests.parse import parse
from shared.manifests.volcano.objects import JobManifest
from tests.builders.objects import node
from tests.coordinator.controllers.support import submit
from tests.end_to_end.one_process.harness import running

JOBS: list[dict[str, Any]] = list(
    yaml.safe_load_all((Path(__file__).parent / "volcano_jobs.yaml").read_text())
)
PATH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
UNHEARD = ("TaskFailed",)


def test_there_is_one_for_each_example() -> None:
    assert len({job["metadata"]["name"] for job in JOBS}) == len(JOBS) == 21


@pytest.mark.parametrize("job", JOBS, ids=[job["metadata"]["name"] for job in JOBS])
def test_every_volcano_job_is_read_and_notices_name_unserved_fields(job: dict[str, Any]) -> None:
    manifest = parse(job)
    assert isinstance(manifest, JobManifest), manifest
    text = " ".join((*manifest.notices, *(n for role in manifest.roles for n in role.notices)))
    spec = job["spec"]
    for name in spec.get("plugins", ()):
        assert name in text
    assert ("volumeClaim is kept" in text) == ("volumes" in spec)
    assert ("runningEstimate: kept" in text) == ("runningEstimate" in spec)
    for event in UNHEARD:
        assert (event in text) == (event in str(spec)), event


@pytest.mark.timeout(120)
async def test_all_of_them_run(redis_url: str, short_dir: Path) -> None:
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    offered["ephemeral-storage"] = "1Ti"
    nodes = [node(f"n{i}") | {"status": {"allocatable": offered}} for i in range(3)]
    async with running(redis_url, short_dir) as service:
        await submit(service, *nodes)
        async with aiohttp.ClientSession(service.url) as session:
            warnings = 0
            for job in JOBS:
                async with session.post(PATH, json=job) as answer:
                    assert answer.status == 201, await answer.text()
                    warnings += len(answer.headers.getall("Warning", []))
            assert warnings >= 15
            await service.until(lambda status: not status["jobs"]["pending"])
            async with session.get(PATH) as answer:
                items = (await answer.json())["items"]
            specs = {item["metadata"]["name"]: item["spec"] for item in items}
            assert specs == {job["metadata"]["name"]: job["spec"] for job in JOBS}
