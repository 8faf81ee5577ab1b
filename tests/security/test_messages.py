"""Nothing altered is taken, and nothing crashes a reader: messages, frames and specifications."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.pretty import Pretty

from coordinator.cluster.simulated.wire import frame, unframe
from coordinator.intake.documents.document import Document, Key, decode_document, encode_document
from shared.codec.checked import SEAL, Malformed, seal
from shared.messages.wire import TURNS
from tests.security.alter import refuses, survives
from tests.security.samples import CONFIGURED, DOCUMENT, PASSWORD, Sample, samples
from tests.security.sealed import pack_sealed

SAMPLES = samples()
SEALED = {name: sample for name, sample in SAMPLES.items() if sample.kind}

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("name", SAMPLES)
def test_altered_messages_are_refused(name: str) -> None:
    sample = SAMPLES[name]
    assert refuses(sample.read, sample.data, Malformed) > 8 * len(sample.data)


@pytest.mark.parametrize("name", SEALED)
def test_behind_a_seal_that_fits_no_form_crashes_the_reader(name: str) -> None:
    sample = SEALED[name]

    def read(body: bytes) -> object:
        return sample.read(seal(sample.kind, body))

    body = sample.data[:-SEAL]
    read(body)
    assert survives(read, body, Malformed, most=3000) > len(body)


@pytest.mark.parametrize("name", SEALED)
def test_fields_too_few_or_too_many_are_refused(name: str) -> None:
    sample = SEALED[name]
    fields = msgpack.unpackb(sample.data[:-SEAL], strict_map_key=False)
    if name == "turns":  # a list of any length of them
        others: list[Any] = [[fields[0][:-1]], [[*fields[0], 0]], {}, None, 0, ""]
    else:
        others = [fields[:-1], [*fields, 0], [*fields, fields[-1]], {}, None, 0, ""]
    for other in others:
        with pytest.raises(Malformed):
            sample.read(pack_sealed(sample.kind, other))


@pytest.mark.parametrize("name", SEALED)
@given(value=values)
def test_no_value_crashes_a_reader(name: str, value: object) -> None:
    sample: Sample = SEALED[name]
    for given_value in (value, [value] * 9, [[value] * 10]):
        with contextlib.suppress(Malformed):
            sample.read(pack_sealed(sample.kind, given_value))


@given(st.binary(max_size=200))
def test_noise_is_refused_by_all(data: bytes) -> None:
    for sample in SAMPLES.values():
        with pytest.raises(Malformed):
            sample.read(data)


def test_one_kind_is_not_taken_for_another() -> None:
    for name, sample in SAMPLES.items():
        for other, reader in SAMPLES.items():
            if name != other and not (name.endswith("frame") and other.endswith("frame")):
                with pytest.raises(Malformed):
                    reader.read(sample.data)


def test_a_document_belongs_to_its_key() -> None:
    other = Document(Key("Job", "default", "other"), DOCUMENT.body, 1.5)
    with pytest.raises(Malformed, match="document Job/default/other"):
        decode_document(str(other.key), encode_document(DOCUMENT))


def test_the_start_of_a_worker_is_printed_without_its_password() -> None:
    console = Console(record=True, file=io.StringIO())
    console.print(Pretty(CONFIGURED))
    for text in (repr(CONFIGURED), console.export_text()):
        assert "rediss://h:1" in text
        assert PASSWORD not in text


def test_custom_types_of_msgpack_are_not_built() -> None:
    times = msgpack.packb([msgpack.Timestamp(1), msgpack.ExtType(5, b"x")])
    with pytest.raises(Malformed):
        TURNS.decode(seal(b"turns", times))


def test_a_frame_is_one_message() -> None:
    data = frame([1, "", None])
    assert unframe(data) == [1, "", None]
    with pytest.raises(Malformed):
        unframe(data + data)
