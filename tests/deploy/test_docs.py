"""The page on deployment: what can run here is run, what it names is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.deploy.rendered import FOR_METRICS, MADE_BY_HAND, OVERLAYS, ROOT, compose

PAGE = (ROOT / "docs/deploy.md").read_text()
BLOCKS = re.findall(r"^```(\w+)(?: (\w+))?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_block_says_what_it_needs() -> None:
    assert {kind for kind, _, _ in BLOCKS} == {"sh"}
    assert {needs for _, needs, _ in BLOCKS} == {"", "container", "cluster"}
    assert PAGE.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("block", [text for _, needs, text in BLOCKS if not needs])
def test_blocks_that_need_neither_run(block: str) -> None:
    kubectl = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on PATH and none named by $KUBECTL: the block was not run")
    script = re.sub(r"^kubectl ", f"{kubectl} ", block, flags=re.MULTILINE)
    subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60
    )


def test_paths_exist() -> None:
    text = " ".join(text for _, _, text in BLOCKS) + " ".join(re.findall(r"`([^`]+)`", PAGE))
    named = set(re.findall(r"\b(?:docker|k8s|tests|docs)/[\w./-]+", text))
    secrets = {f"docker/{secret['file'][2:]}" for secret in compose()["secrets"].values()}
    assert secrets <= named
    made_there = {"docker/secrets", "docker/secrets/", "docker/secrets/my_token"}
    for path in named - secrets - made_there:
        assert (ROOT / path).exists(), path
    for link in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link


def test_names_are_those_of_the_files() -> None:
    for overlay in OVERLAYS:
        assert f"k8s/overlays/{overlay}" in PAGE
    for secret, keys in (MADE_BY_HAND | FOR_METRICS).items():
        for key in keys:
            source = f"--from-file={key}\n" if "." in key else f"--from-literal={key}="
            assert f"secret generic {secret} {source}" in PAGE
    token = (ROOT / "k8s/overlays/demo/tokens.yaml").read_text().partition("\n")[0].split()[-1]
    assert f"`{token}`" in PAGE
    for service in re.findall(r"--scale ([\w-]+)=", PAGE):
        assert service in compose()["services"]
