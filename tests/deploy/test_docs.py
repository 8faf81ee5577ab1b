"""The page on deployment: what it names is there. Its blocks run with those of all pages."""

from __future__ import annotations

import re

from tests.deploy.rendered import FOR_METRICS, FOR_TLS, MADE_BY_HAND, OVERLAYS, ROOT, compose
from tests.docs.pages import blocks

PAGE = (ROOT / "docs/deploy.md").read_text()
TEXTS = [block.text for block in blocks(ROOT / "docs/deploy.md")]


def test_paths_exist() -> None:
    text = " ".join(TEXTS) + " ".join(re.findall(r"`([^`]+)`", PAGE))
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
    for secret, keys in FOR_TLS.items():
        (command_line,) = re.findall(rf"secret generic {secret} (.*)", PAGE)
        assert set(re.findall(r"--from-file=(\S+)", command_line)) == keys
    token = (
        (ROOT / "k8s/overlays/playground/tokens.yaml").read_text().partition("\n")[0].split()[-1]
    )
    assert f"`{token}`" in PAGE
    for service in re.findall(r"--scale ([\w-]+)=", PAGE):
        assert service in compose()["services"]
