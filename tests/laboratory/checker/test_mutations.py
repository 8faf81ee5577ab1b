"""Every mutation of a good history is noticed, by the name of the rule that it breaks."""

from __future__ import annotations

import pytest

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import History
from tests.laboratory.checker.mutations import MUTATIONS, NUMBERS, OF_KAI
from tests.laboratory.checker.rich import rich_history
from tests.laboratory.checker.rich_kai import kai_history


def test_the_histories_themselves_are_clean_and_show_every_rule() -> None:
    unseen = set[str]()
    for history in (rich_history(), kai_history()):
        report = History(history).check()
        assert report.violations == ()
        some = {row.rule for row in report.rows if row.rule and row.state != "held"}
        unseen = some & unseen if unseen else some
    assert unseen == {Rule.BINDING_ENDS.label}, "the runs are too short for it, and for it alone"


def test_numbering_anew_changes_nothing() -> None:
    history = History(rich_history())
    history.renumber()
    assert history.check().violations == ()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_noticed_by_name(name: str) -> None:
    rule, mutate = MUTATIONS[name]
    history = History(kai_history() if name in OF_KAI else rich_history())
    mutate(history)
    if name not in NUMBERS:
        history.renumber()
    report = history.check()
    results = {violation.rule for violation in report.violations}
    assert rule.label in results, results
    assert report.broken[rule.promise]


def test_every_rule_is_broken_by_some_mutation() -> None:
    assert {rule for rule, _ in MUTATIONS.values()} == set(Rule)
