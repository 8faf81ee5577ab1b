"""Parts of GPUs that a pod asks for by annotations, checked as KAI's admission webhook does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from shared.byte_cache import MIB, byte_cache
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.manifests.kubernetes.objects import PodTemplate
from shared.model.gpu_request import FRACTION, MEMORY, NUMBER, GpuRequest, gpu_request
from shared.model.model import Pairs
from shared.units.bounded_numbers import finite_number

_NUMBER = re.compile(r"[0-9]{1,9}")
_WORDS = (FRACTION, MEMORY, NUMBER)


def gpu_share_of(marks: Pairs, template: PodTemplate, at: str = "metadata") -> GpuRequest | None:
    """Return the pod's request for shared GPUs; None where it shares none. Raises InvalidInput."""
    words = {key: value for key, value in marks if key in _WORDS}
    if not words:
        return None
    for field, value, message in _problems(words, template):
        raise InvalidInput(f"{at}.annotations.{field}", value, message)
    return gpu_request(words, 0)


def _problems(words: Mapping[str, str], template: PodTemplate) -> Iterator[tuple[str, str, str]]:
    """(annotation, its value, what is wrong with it)"""
    share, memory, number = (words.get(word) for word in _WORDS)
    if share is not None and memory is not None:
        yield MEMORY, memory, f"not allowed beside {FRACTION}; take one of them out"
    if share is not None and not 0 < (finite_number(share) or 0) < 1:
        yield FRACTION, share, 'not between 0 and 1; write for example "0.5"'
    if memory is not None and not (_NUMBER.fullmatch(memory) and int(memory)):
        yield MEMORY, memory, 'no positive whole number of MiB; write for example "4000"'
    if number is not None and share is None and memory is None:
        yield NUMBER, number, f"needs {FRACTION} or {MEMORY} beside it; add one, or leave it out"
    if number is not None and not (_NUMBER.fullmatch(number) and int(number)):
        yield NUMBER, number, 'no positive whole number; write for example "2"'
    if whole := [name for name, amount in template.requests if name.endswith("gpu") and amount]:
        field = FRACTION if share is not None else MEMORY
        message = f"not allowed beside whole GPUs; take {whole[0]} out of the resources"
        yield field, words[field], message


def with_gpu_share(template: PodTemplate, share: GpuRequest | None) -> PodTemplate:
    """The template of a pod that asks for this; equal ones are one object."""
    return template if share is None else _with(template, share)


@byte_cache("gpu-share-templates", 4 * MIB)
def _with(template: PodTemplate, share: GpuRequest) -> PodTemplate:
    return replace(template, gpu_share=share)
