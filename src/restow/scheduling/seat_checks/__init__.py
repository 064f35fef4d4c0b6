"""Checks of seats that ask the filters of the scheduling engine; what needs no engine is in `model.reservations`."""
