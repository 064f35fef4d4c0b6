"""Reservations: what they are, how their seats live, and who may use them."""
