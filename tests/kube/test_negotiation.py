"""The form that a client asks for."""

from __future__ import annotations

import pytest

from coordinator.kube.negotiation import Form, form_of
from coordinator.kube.problems import Problem
from tests.kube.client import TABLE


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        ("application/json", Form.OBJECT),
        ("application/json;q=0.9, text/html", Form.OBJECT),
        ("application/vnd.kubernetes.protobuf,application/json", Form.OBJECT),
        (TABLE, Form.TABLE),
        ("application/json; as=Table; g=meta.k8s.io; v=v1", Form.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.OBJECT),
        ("application/json;as=Table;v=v1;g=other.io,application/json", Form.OBJECT),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form.METADATA),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Form.METADATA),
        ("application/json;as=Chart,application/json", Form.OBJECT),
    ],
)
def test_the_first_form_that_is_there(accept: str, form: Form) -> None:
    assert form_of(accept) is form


@pytest.mark.parametrize("accept", ["text/html", "application/yaml", "application/json;as=Chart"])
def test_no_form_is_there(accept: str) -> None:
    with pytest.raises(Problem, match="only application/json") as caught:
        form_of(accept)
    assert caught.value.status == 406
