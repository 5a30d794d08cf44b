"""Arithmetic of scripts."""

from trimtab.simulate.containers.arithmetic import calculate


def test_division_of_large_numbers_is_exact_and_towards_zero() -> None:
    product = " * ".join(["999999999999999999"] * 30)
    assert calculate(f"{product} / ({product})") == 1
    assert (calculate("(0 - 7) / 2"), calculate("(0 - 7) % 2"), calculate("7 % (0 - 2)")) == (-3, -1, 1)
