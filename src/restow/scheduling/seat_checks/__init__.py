"""Reservations: what they ask for, who may use them, and how they come and go."""
