"""The checker on claims of devices: what expressions select, and who can have which (promise 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laboratory.checker.placement.device_selectors import selects
from tests.laboratory.checker.story import PODS, Story

DRIVER = "gpu.example.com"
MODEL = f'device.attributes["{DRIVER}"].model'
MEMORY = f'device.capacity["{DRIVER}"].memory'
GIB = 2**30 * 1000
CLAIMS = 3
"""Class: a pod with two claims of templates, one of any device and one of a certain."""


def device(name: str, model: str = "a", **more: Any) -> dict[str, Any]:
    attributes: list[dict[str, Any]] = [{"name": "model", "kind": "string", "value": model}]
    attributes.append({"name": "example.org/slot", "kind": "int", "value": 2})
    return {"name": name, "attributes": attributes, "capacity": [["memory", 40 * GIB]], **more}


@pytest.mark.parametrize(
    ("expression", "is_selected"),
    [
        (f'{MODEL} == "a"', True),
        (f"{MODEL} == 'b'", False),
        (f'!({MODEL} in ["b", "c"])', True),
        (f'{MODEL} != "b" && device.driver == "{DRIVER}"', True),
        ('device.attributes["example.org"].slot > 1', True),
        ('device.attributes["example.org"].slot > 1 && false', False),
        (f'{MEMORY}.compareTo(quantity("40Gi")) >= 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("40960Mi"))', False),
        (f'{MEMORY}.isLessThan(quantity("50G"))', True),
        # Not there: an error, which the other side of || decides, and nothing selects alone.
        (f'device.attributes["{DRIVER}"].gone == "a"', False),
        (f'device.attributes["{DRIVER}"].gone != "a"', False),
        (f'device.attributes["{DRIVER}"].gone == "a" || {MODEL} == "a"', True),
        # Of a form that is not judged.
        (f'{MODEL}.startsWith("z")', True),
        (f"{MODEL} == 1", True),
        ("device.attributes.exists(d, d == 'z')", True),
        ("not an expression (", True),
    ],
)
def test_an_expression_selects_devices(expression: str, is_selected: bool) -> None:
    assert selects((expression,), DRIVER, device("g")) == is_selected
    assert not selects((expression, "device.driver == 'other'"), DRIVER, device("g"))


def story(*devices: dict[str, Any], certain: str = "b") -> Story:
    built = Story()
    built.ledger("policy", policy={"actions": ["allocate"], "tiers": [[{"name": "predicates"}]]})
    rules = {"twins": {"claim_templates": ["certain", "any"]}}
    asks = [[PODS, 1, 0]]
    item = {"cid": CLAIMS, "requests": asks, "best_effort": False, "rules": "twins"}
    built.ledger("class", classes=[item], rules=rules)
    built.job(3, 2, roles=[[CLAIMS, 0, 2, 0]])
    tell(built, "deviceclass/gpu", {"name": "gpu", "selectors": [f'device.driver == "{DRIVER}"']})
    tell(built, "claimtemplate/default/any", _request())
    tell(built, "claimtemplate/default/certain", _request(f'{MODEL} == "{certain}"'))
    tell(built, "resourceslice/n0", slice_of(*devices))
    return built


def slice_of(*devices: dict[str, Any]) -> dict[str, Any]:
    return {"name": "n0", "driver": DRIVER, "pool": "n0", "node": "n0", "devices": list(devices)}


def _request(*selectors: str) -> dict[str, Any]:
    ask = {"device_class": "gpu", **({"selectors": list(selectors)} if selectors else {})}
    return {"requests": [{"name": "gpu", "asks": [ask]}]}


def tell(history: Story, key: str, value: dict[str, Any]) -> dict[str, Any]:
    return history.ledger("object", keys=[key], gone=[False], values={key: value})


def wrong(history: Story, folder: Path) -> list[str]:
    return [str(result) for result in history.check(folder).violations if result.rule == "devices"]


def test_each_claim_can_have_a_device_of_its_own(tmp_path: Path) -> None:
    """The one that takes any leaves the certain one to whom it is all that fits."""
    history = story(device("g0", "b"), device("g1"))
    history.commit(3, {0: 0}, cid=CLAIMS)
    assert not wrong(history, tmp_path)


def test_enough_devices_of_the_wrong_kind_are_too_few(tmp_path: Path) -> None:
    history = story(device("g0"), device("g1"), device("g2"))
    history.commit(3, {0: 0}, cid=CLAIMS)
    [result] = wrong(history, tmp_path)
    assert "one wants 1 of the 0 that it selects" in result


def test_two_pods_want_one_device(tmp_path: Path) -> None:
    history = story(device("g0", "b"), device("g1"), device("g2"), device("g3"))
    history.commit(3, {0: 0}, cid=CLAIMS)
    assert not wrong(history, tmp_path)
    history.commit(3, {1: 0}, cid=CLAIMS)
    assert wrong(history, tmp_path)


def test_fewer_devices_than_claims(tmp_path: Path) -> None:
    history = story(device("g0", "b"))
    history.commit(3, {0: 0}, cid=CLAIMS)
    [result] = wrong(history, tmp_path)
    assert "want 2 devices, it has 1" in result


def test_a_device_that_claims_may_share_proves_nothing(tmp_path: Path) -> None:
    history = story(device("g0", shared=True))
    history.commit(3, {0: 0}, cid=CLAIMS)
    assert not wrong(history, tmp_path)


def test_a_running_task_keeps_a_device_that_no_slice_lists(tmp_path: Path) -> None:
    history = story(device("g0", "b"), device("g1"))
    history.commit(3, {0: 0}, cid=CLAIMS)
    tell(history, "resourceslice/n0", slice_of(device("g2", "b"), device("g3")))
    history.commit(3, {1: 0}, cid=CLAIMS)
    assert not wrong(history, tmp_path)


@pytest.mark.parametrize(("name", "is_wrong"), [("g0", False), ("g1", True)])
def test_a_stored_allocation_is_of_devices_that_the_claim_selects(
    name: str, is_wrong: bool, tmp_path: Path
) -> None:
    history = story(device("g0", "b"), device("g1"))
    history.commit(3, {0: 0}, cid=CLAIMS)
    result = {"request": "gpu", "driver": DRIVER, "pool": "n0", "device": name}
    claim = {**_request(f'{MODEL} == "b"'), "allocation": {"results": [result]}}
    tell(history, "resourceclaim/default/one", claim)
    assert bool(wrong(history, tmp_path)) == is_wrong
