"""Quantities: every suffix and exponent, canonical text, rounding, saturation, and exactness against fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restow.model.quantity import INT64_MAX, NANO, Quantity, QuantityError, parse_amount, quantity_of

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@pytest.mark.parametrize("suffix", DECIMAL)
def test_decimal_suffix_multiplies_by_its_power_of_ten(suffix: str) -> None:
    assert Quantity.parse(f"3{suffix}").nano == 3 * NANO * Fraction(10) ** DECIMAL[suffix]


@pytest.mark.parametrize("suffix", BINARY)
def test_binary_suffix_multiplies_by_its_power_of_two(suffix: str) -> None:
    assert Quantity.parse(f"3{suffix}").nano == 3 * NANO * 2 ** BINARY[suffix]


# What kube-apiserver prints for the same text.
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("0.1", "100m"),
        (".5", "500m"),
        ("5.", "5"),
        ("+7", "7"),
        ("007", "7"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000Mi", "1000Mi"),
        ("1023", "1023"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("-1.5Gi", "-1536Mi"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e6", "12e6"),
        ("100e-3", "100e-3"),
        ("1e2", "100"),
        ("1E", "1E"),
        ("1000E", "1e21"),
        ("0.9n", "1n"),
        ("-0.9n", "-1n"),
        ("1e-30", "1e-9"),
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("0.0005Ki", "512m"),
        (" 1Gi ", "1Gi"),
    ],
)
def test_quantity_has_canonical_text(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("number", "canonical"), [(2, "2"), (0.5, "500m"), (1e21, "1e21"), (-3, "-3"), (1.5e-7, "150e-9")]
)
def test_json_numbers_are_quantities(number: float, canonical: str) -> None:
    assert str(Quantity.parse(number)) == canonical


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1.1", 2, 1100),
        ("-1.1", -2, -1100),
        ("0.0001", 1, 1),
        ("-0.0001", -1, -1),
        ("1n", 1, 1),
        ("16E", INT64_MAX, INT64_MAX),
        ("-16E", -INT64_MAX - 1, -INT64_MAX - 1),
        ("9223372036854775807", INT64_MAX, INT64_MAX),
        ("1e1000", INT64_MAX, INT64_MAX),
    ],
    ids=str,
)
def test_int64_readings_round_away_from_zero_and_saturate(text: str, value: int, milli: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value, quantity.milli) == (value, milli)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "quantity '': it is empty"),
        ("k", "quantity 'k': it must start with a number"),
        (".", "quantity '.': it must start with a number"),
        ("+", "quantity '+': it must start with a number"),
        ("--1", "quantity '--1': it must start with a number"),
        ("1.2.3", "quantity '1.2.3': the number has more than one decimal point"),
        (
            "2c",
            "quantity '2c': unknown suffix 'c'; use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3",
        ),
        ("1e1001", "quantity '1e1001': the exponent is larger than 1000"),
        ("1" * 300, f"quantity '{'1' * 37}...': it is longer than 256 characters"),
        ("١", "quantity '١': it must start with a number"),
    ],
)
def test_quantity_error_names_the_mistake(text: str, complaint: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        Quantity.parse(text)
    assert str(refusal.value) == complaint


@pytest.mark.parametrize("text", ["1 Gi", "1i", "1mi", "1K", "1e", "0x1", "1_000", "NaN", "inf", "1Gi\n1", "1ki"])
def test_malformed_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize("number", [True, float("inf"), float("nan")])
def test_infinity_and_nan_are_refused(number: float) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(number)


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("cpu", "250m", 250),
        ("cpu", "0.0001", 1),
        ("cpu", 2, 2000),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "100m", 1),
        ("nvidia.com/gpu", "2", 2),
    ],
)
def test_quantity_amount_is_in_base_units(resource: str, text: str | int, expected: int) -> None:
    assert parse_amount(resource, text) == expected


def test_boolean_is_not_a_quantity() -> None:
    assert parse_amount("cpu", 1) == 1000
    with pytest.raises(QuantityError, match="a boolean is not a quantity"):
        parse_amount("cpu", True)


@pytest.mark.parametrize(
    ("resource", "base_units", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**30, "1Gi"),
        ("hugepages-2Mi", 2**22, "4Mi"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_quantity_of_prints_base_units_in_usual_notation(resource: str, base_units: int, text: str) -> None:
    assert str(quantity_of(resource, base_units)) == text


digits = st.text("0123456789", max_size=24)
suffixes = st.sampled_from([*DECIMAL, *BINARY, "e3", "E-4", "e+12", "e-20", "e0"])


@st.composite
def well_formed(draw: st.DrawFn) -> tuple[str, Fraction, bool]:
    """A quantity, the exact number it names, and whether it is binary."""
    whole, fraction = draw(digits), draw(st.none() | digits)
    if not whole and not fraction:
        whole = "0"
    sign, suffix = draw(st.sampled_from(["", "+", "-"])), draw(suffixes)
    number = Fraction(int(whole + (fraction or "")), 10 ** len(fraction or ""))
    if suffix in BINARY:
        scale = Fraction(2 ** BINARY[suffix])
    else:
        scale = Fraction(10) ** (DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:]))
    text = f"{sign}{whole}{'' if fraction is None else '.' + fraction}{suffix}"
    return text, (-1 if sign == "-" else 1) * number * scale, suffix in BINARY


def rounded_away_from_zero(number: Fraction) -> int:
    magnitude = -(-abs(number).numerator // number.denominator)
    return magnitude if number >= 0 else -magnitude


@given(well_formed())
def test_parsing_agrees_with_exact_fractions(case: tuple[str, Fraction, bool]) -> None:
    text, number, binary = case
    expected = rounded_away_from_zero(number * NANO)
    if binary:
        expected = max(-INT64_MAX * NANO, min(expected, INT64_MAX * NANO))
    assert Quantity.parse(text).nano == expected


@given(well_formed())
def test_canonical_text_loses_nothing_and_is_stable(case: tuple[str, Fraction, bool]) -> None:
    quantity = Quantity.parse(case[0])
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(well_formed())
def test_canonical_text_has_no_fraction_and_the_largest_suffix(case: tuple[str, Fraction, bool]) -> None:
    text = str(Quantity.parse(case[0]))
    assert "." not in text
    assert not text.endswith(("000", "000m", "000k", "000e3"))


@given(st.text(max_size=12) | st.text("0123456789.+-eEKMGTPinumk ", max_size=12))
@example("1e99999999999999999999")
@example("1e-99999999999999999999")
def test_any_text_is_a_quantity_or_a_refusal(text: str) -> None:
    try:
        assert isinstance(str(Quantity.parse(text)), str)
    except QuantityError as refusal:
        assert str(refusal).startswith("quantity ")


quantities = st.builds(Quantity, st.integers(-(2**80), 2**80), st.sampled_from(["DecimalSI", "BinarySI"]))


@given(quantities, quantities, quantities)
def test_quantity_sums_are_exact(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + b - b == a
    assert a - a == Quantity(0)
    assert a + -a == Quantity(0)


@given(quantities, quantities)
def test_order_is_that_of_the_amounts(a: Quantity, b: Quantity) -> None:
    assert (a < b, a == b, a > b) == (a.nano < b.nano, a.nano == b.nano, a.nano > b.nano)
    assert (a <= b, a >= b) == (a.nano <= b.nano, a.nano >= b.nano)
    assert a != b or hash(a) == hash(b)


def test_equal_quantities_of_different_formats_are_the_same_key() -> None:
    assert len({Quantity.parse("1Gi"), Quantity.parse("1073741824"), Quantity.parse("1073741824000m")}) == 1


def test_zero_takes_the_format_of_the_added_quantity() -> None:
    assert str(Quantity(0) + Quantity.parse("2Gi")) == "2Gi"
