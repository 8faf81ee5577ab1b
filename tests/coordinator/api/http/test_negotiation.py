"""The form that a client asks for."""

from __future__ import annotations

import pytest

from coordinator.api.http.negotiation import AnswerForm, form_of
from coordinator.errors import Problem
from tests.coordinator.api.client import TABLE


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", AnswerForm.OBJECT),
        ("*/*", AnswerForm.OBJECT),
        ("application/json", AnswerForm.OBJECT),
        ("application/json;q=0.9, text/html", AnswerForm.OBJECT),
        ("application/vnd.kubernetes.protobuf,application/json", AnswerForm.OBJECT),
        (TABLE, AnswerForm.TABLE),
        ("application/json; as=Table; g=meta.k8s.io; v=v1", AnswerForm.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", AnswerForm.OBJECT),
        ("application/json;as=Table;v=v1;g=other.io,application/json", AnswerForm.OBJECT),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", AnswerForm.METADATA),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", AnswerForm.METADATA),
        ("application/json;as=Chart,application/json", AnswerForm.OBJECT),
    ],
)
def test_the_first_form_that_is_there(accept: str, form: AnswerForm) -> None:
    assert form_of(accept) is form


@pytest.mark.parametrize("accept", ["text/html", "application/yaml", "application/json;as=Chart"])
def test_no_form_is_there(accept: str) -> None:
    with pytest.raises(Problem, match="only application/json") as caught:
        form_of(accept)
    assert caught.value.status == 406
