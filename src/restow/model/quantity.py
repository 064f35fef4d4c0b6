"""Exact resource quantities, as Kubernetes writes them.

Goes in: text such as "250m", "1.5Gi", "2e3", or a JSON number. Comes out: a `Quantity` holding an integer number of
nano units, or `amount(resource, text)`, the integer in the base unit schedulers calculate with (cpu in milli,
everything else in whole units). No floating point is involved, and nothing overflows: the int64 readings saturate.

    number   digits | digits "." digits | digits "." | "." digits, optionally signed
    suffix   n u m (none) k M G T P E  |  Ki Mi Gi Ti Pi Ei  |  e<signed digits> or E<signed digits>

Differences to kube-apiserver, on purpose: a text without any digit ("k", ".") is refused, where it reads 0, and so is
an exponent beyond `MAX_EXPONENT`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import msgspec

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

INT64_MAX = 2**63 - 1
NANO_DIGITS = 9
NANO = 10**NANO_DIGITS
MAX_EXPONENT = 1000
MAX_LENGTH = 256

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = ("", *_BINARY)
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]+))",
    re.ASCII,
)


class QuantityError(ValueError):
    """The text is not a quantity; the message quotes it and says what is wrong."""


class Quantity(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An exact amount in units of 10^-9, and the format it is printed in. Equality and order look at the amount."""

    nano: int
    format: Format = "DecimalSI"

    @classmethod
    def parse(cls, text: str | int | float) -> Quantity:
        """Read a quantity from text or from a JSON number. Amounts finer than nano are rounded away from zero."""
        if isinstance(text, str):
            return _parse(text)
        if isinstance(text, bool):
            raise QuantityError(f"quantity {str(text).lower()!r}: a boolean is not a quantity")
        if isinstance(text, int):
            return cls(text * NANO)
        return _parse(repr(text))

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero, within int64."""
        return _saturate(_divide_away_from_zero(self.nano, NANO))

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero, within int64."""
        return _saturate(_divide_away_from_zero(self.nano, NANO // 1000))

    def __str__(self) -> str:
        if not self.nano:
            return "0"
        if self.format == "BinarySI" and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            return _binary_text(self.nano // NANO)
        return _decimal_text(self.nano, exponent_form=self.format == "DecimalExponent")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __bool__(self) -> bool:
        return self.nano != 0


@lru_cache(maxsize=65536, typed=True)
def parse_amount(resource: str, text: str | int | float) -> int:
    """The integer a scheduler calculates with: milli for cpu, whole units rounded up for everything else."""
    quantity = Quantity.parse(text)
    return quantity.milli if resource == "cpu" else quantity.value


def not_negative(text: str | int | float) -> Quantity:
    """A quantity as people write it into objects, where none may be less than zero. Raises QuantityError."""
    quantity = Quantity.parse(text)
    if quantity.nano < 0:
        raise QuantityError(f"quantity {str(text)!r}: must not be negative")
    return quantity


def quantity_of(resource: str, base_units: int) -> Quantity:
    """The inverse of `amount`, in the format people expect: binary for memory-like resources, decimal otherwise."""
    if resource == "cpu":
        return Quantity(base_units * (NANO // 1000))
    bytes_like = resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")
    return Quantity(base_units * NANO, "BinarySI" if bytes_like else "DecimalSI")


@lru_cache(maxsize=65536)
def _parse(text: str) -> Quantity:
    stripped = text.strip()
    match = _QUANTITY.fullmatch(stripped) if len(stripped) <= MAX_LENGTH else None
    if match is None:
        raise QuantityError(f"quantity {_shorten(text)}: {_what_is_wrong(stripped)}")
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction or "0")
    suffix, exponent_text = match["suffix"], match["exponent"]
    if suffix in _BINARY:
        nano = _scale(digits << _BINARY[suffix], NANO_DIGITS - len(fraction))
        # As upstream: amounts with a binary suffix end at int64, and less than one is printed with a decimal suffix.
        nano = min(nano, INT64_MAX * NANO)
        form: Format = "BinarySI" if nano >= NANO or not nano else "DecimalSI"
    else:
        exponent = _DECIMAL[suffix] if exponent_text is None else int(exponent_text)
        if exponent > MAX_EXPONENT:
            raise QuantityError(f"quantity {_shorten(text)}: the exponent is larger than {MAX_EXPONENT}")
        nano = _scale(digits, exponent + NANO_DIGITS - len(fraction))
        form = "DecimalSI" if exponent_text is None else "DecimalExponent"
    return Quantity(-nano if match["sign"] == "-" else nano, form)


def _scale(digits: int, exponent: int) -> int:
    """digits * 10^exponent, rounded up to an integer."""
    # The text has at most MAX_LENGTH digits, so this is less than one nano; 10^exponent could be a huge number.
    if exponent < -MAX_LENGTH:
        return 1 if digits else 0
    power: int = 10 ** abs(exponent)
    return digits * power if exponent >= 0 else -(-digits // power)


def _divide_away_from_zero(dividend: int, divisor: int) -> int:
    quotient = -(-abs(dividend) // divisor)
    return quotient if dividend >= 0 else -quotient


def _saturate(number: int) -> int:
    return max(-INT64_MAX - 1, min(number, INT64_MAX))


def _decimal_text(nano: int, *, exponent_form: bool) -> str:
    number, exponent = nano, -NANO_DIGITS
    while number % 1000 == 0:
        number //= 1000
        exponent += 3
    if exponent_form or exponent not in _DECIMAL_SUFFIX:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


def _binary_text(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < len(_BINARY):
        number //= 1024
        power += 1
    return f"{number}{_BINARY_SUFFIX[power]}"


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _what_is_wrong(text: str) -> str:
    if not text:
        return "it is empty"
    if len(text) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH} characters"
    number = re.match(r"[+-]?[0-9.]*", text, re.ASCII)
    head = number.group() if number else ""
    if not re.search("[0-9]", head):
        return "it must start with a number"
    if head.count(".") > 1:
        return "the number has more than one decimal point"
    suffix = _shorten(text[len(head) :])
    return f"unknown suffix {suffix}; use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
