"""The algebra of amounts: Volcano's rules by example, and their laws by property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.units.resources import (
    MissingScalar,
    at_most,
    dominant_share,
    exceeded,
    exceeding,
    exceeding_on,
    greater_partly_on,
    less_equal,
    less_equal_partly_on,
    maximum,
    min_dimension,
    share,
    subtract,
    subtract_below_zero,
)
from shared.units.slots import CPU, MEMORY, PODS

GPU = 3
amounts = st.dictionaries(st.integers(0, 5), st.integers(0, 50))
modes = st.sampled_from(MissingScalar)


class TestLessEqual:
    def test_only_scalars_of_the_left_are_looked_at(self) -> None:
        assert less_equal({CPU: 1}, {CPU: 1, GPU: 5})
        assert not less_equal({CPU: 1, GPU: 5}, {CPU: 1})

    def test_with_infinity_a_scalar_only_the_right_has_makes_it_false(self) -> None:
        assert not less_equal({CPU: 1}, {CPU: 1, GPU: 5}, MissingScalar.INFINITY)
        assert less_equal({CPU: 1, GPU: 5}, {CPU: 1}, MissingScalar.INFINITY)

    def test_cpu_and_memory_are_never_infinite(self) -> None:
        assert not less_equal({CPU: 1}, {}, MissingScalar.INFINITY)

    def test_a_difference_below_epsilon_is_none(self) -> None:
        assert less_equal({CPU: 1000}, {CPU: 999.91})
        assert not less_equal({CPU: 1000}, {CPU: 999.89})

    @given(amounts, amounts, modes)
    def test_whole_numbers_are_equal_or_not(
        self, left: dict[int, int], right: dict[int, int], missing: MissingScalar
    ) -> None:
        infinite = missing is MissingScalar.INFINITY
        expected = all(
            (infinite and slot > MEMORY and slot not in right) or left[slot] <= right.get(slot, 0)
            for slot in left
        )
        if infinite:
            expected = expected and all(slot <= MEMORY or slot in left for slot in right)
        assert less_equal(left, right, missing) is expected

    @given(amounts, amounts, amounts)
    def test_is_an_order(self, a: dict[int, int], b: dict[int, int], c: dict[int, int]) -> None:
        assert less_equal(a, a)
        assert not (less_equal(a, b) and less_equal(b, c)) or less_equal(a, c)


class TestExceeding:
    def test_names_the_slots(self) -> None:
        assert exceeding({CPU: 2, MEMORY: 1, GPU: 3}, {CPU: 1, MEMORY: 1}) == [CPU, GPU]
        assert exceeding({CPU: 2, GPU: 3}, {CPU: 1}, MissingScalar.INFINITY) == [CPU]

    @given(amounts, amounts)
    def test_nothing_exceeds_an_equal_or_larger_amount(
        self, left: dict[int, int], right: dict[int, int]
    ) -> None:
        assert (exceeding(left, right) == []) is less_equal(left, right)


class TestOnRequestedDimensions:
    def test_only_requested_resources_count(self) -> None:
        assert exceeding_on({CPU: 9, MEMORY: 1}, {CPU: 1, MEMORY: 1}, {MEMORY: 1}) == []
        assert exceeding_on({CPU: 9, MEMORY: 1}, {CPU: 1, MEMORY: 1}, {CPU: 1}) == [CPU]
        assert exceeding_on({CPU: 9}, {CPU: 1}, {CPU: 0}) == []

    def test_it_is_exact(self) -> None:
        assert exceeding_on({CPU: 1000}, {CPU: 999.95}, {CPU: 1}) == [CPU]

    def test_pods_never_count(self) -> None:
        assert exceeding_on({PODS: 9}, {PODS: 1}, {PODS: 1}) == []

    def test_missing_sides(self) -> None:
        assert exceeding_on(None, {}, {CPU: 1}) == []
        assert exceeding_on({GPU: 1}, None, {CPU: 1}) == [CPU, MEMORY, GPU]
        assert exceeding_on({CPU: 2, GPU: 1}, {CPU: 1}, None) == [CPU, GPU]

    def test_a_left_without_scalars_passes_on_scalars(self) -> None:
        assert exceeding_on({CPU: 1}, {CPU: 1, GPU: -1}, {GPU: 1}) == []
        assert exceeding_on({CPU: 1, GPU: 0}, {CPU: 1, GPU: -1}, {GPU: 1}) == [GPU]

    def test_partly(self) -> None:
        assert less_equal_partly_on({CPU: 1, MEMORY: 9}, {CPU: 1}, {CPU: 1, MEMORY: 1})
        assert not less_equal_partly_on({MEMORY: 9}, {}, {CPU: 1, MEMORY: 1})  # cpu: 0 and 0
        assert greater_partly_on({CPU: 2}, {CPU: 1}, {CPU: 1})
        assert not greater_partly_on({CPU: 2, GPU: 2}, {}, {CPU: 1, GPU: 1})
        assert greater_partly_on({GPU: 2}, {GPU: 0}, {GPU: 1})


class TestCombining:
    @given(amounts, amounts)
    def test_exceeded_and_what_is_within_make_the_whole(
        self, left: dict[int, int], right: dict[int, int]
    ) -> None:
        over, within = exceeded(left, right), min_dimension(left, right, MissingScalar.ZERO)
        assert all(over.get(slot, 0) + within[slot] == left[slot] for slot in left)
        assert all(amount >= 0 for amount in over.values())
        assert less_equal(within, right)

    def test_min_dimension_keeps_an_unlimited_scalar(self) -> None:
        assert min_dimension({CPU: 5, GPU: 5}, {CPU: 3}, MissingScalar.INFINITY) == {CPU: 3, GPU: 5}
        assert min_dimension({CPU: 5, GPU: 5}, {CPU: 3}, MissingScalar.ZERO) == {CPU: 3, GPU: 0}
        assert min_dimension({CPU: 5}, {}, MissingScalar.INFINITY) == {CPU: 0}

    def test_maximum_drops_negative_scalars(self) -> None:
        larger = maximum({CPU: -5, MEMORY: 1, GPU: -1}, {CPU: -7, GPU: -2})
        assert larger == {CPU: -5, MEMORY: 1}
        assert maximum({GPU: -1}, {GPU: 4})[GPU] == 4

    @given(amounts, amounts)
    def test_subtracting_an_added_amount(self, left: dict[int, int], right: dict[int, int]) -> None:
        both = {slot: left.get(slot, 0) + right.get(slot, 0) for slot in {*left, *right}}
        rest = subtract(both, right)
        assert all(rest.get(slot, 0) == left.get(slot, 0) for slot in {*left, *right, *rest})

    def test_subtracting_too_much_is_an_error(self) -> None:
        with pytest.raises(ArithmeticError, match=r"\[0, 3\]"):
            subtract({CPU: 1}, {CPU: 2, GPU: 1})
        assert subtract_below_zero({CPU: 1, GPU: 1}, {CPU: 2, GPU: 2}) == {CPU: -1, GPU: -1}

    def test_a_left_without_scalars_ignores_those_of_the_right(self) -> None:
        assert subtract_below_zero({CPU: 1}, {CPU: 2, GPU: 2}) == {CPU: -1}


class TestShare:
    def test_shares_of_an_empty_total(self) -> None:
        assert (share(0, 0), share(1, 0), share(1, 4)) == (0.0, 1.0, 0.25)

    def test_dominant(self) -> None:
        assert dominant_share({CPU: 1, MEMORY: 6, 9: 5}, {CPU: 2, MEMORY: 8}) == 0.75
        assert dominant_share({}, {CPU: 2}) == 0.0


@given(st.integers(-9, 9), st.integers(-9, 9))
def test_whole_numbers_need_no_epsilon(left: int, right: int) -> None:
    assert at_most(left, right) is (left <= right)
