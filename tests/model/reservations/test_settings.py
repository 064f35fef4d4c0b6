"""The `reservations` section of the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.reservations.settings import ReservationSettings, read_reservation_settings
from restow.model.wire import WireError


@pytest.mark.parametrize(
    ("section", "read"),
    [
        pytest.param({}, ReservationSettings(1.0, 60.0, 86400.0, 50), id="nothing: the defaults"),
        pytest.param(
            {"expiryCheck": "5s", "gcPeriod": "2m", "gcDuration": "0s", "namespaceShare": 100},
            ReservationSettings(5.0, 120.0, 0.0, 100),
            id="everything",
        ),
    ],
)
def test_settings_are_parsed(section: dict[str, Any], read: ReservationSettings) -> None:
    assert read_reservation_settings(section) == read


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"gcperiod": "1m"}, "reservations: gcperiod: unknown field"),
        ({"expiryCheck": "0s", "gcPeriod": "1ms"}, "expiryCheck: 0s is shorter than 100ms; gcPeriod: 1ms is shorter"),
        ({"gcDuration": "-1h", "namespaceShare": 101}, "-1h is negative; namespaceShare: 101 is not between 0 and 100"),
        ({"gcDuration": "a day"}, "gcDuration: duration 'a day': expected numbers with units"),
    ],
)
def test_every_mistake_in_the_settings_is_reported_with_its_path(section: dict[str, Any], told: str) -> None:
    with pytest.raises(WireError) as error:
        read_reservation_settings(section)
    assert told in str(error.value)
