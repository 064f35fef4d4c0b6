"""Few rows, for which plain integers are faster than arrays.

After a placement a plugin is asked about the one or two rows that changed. The fixed cost of every array operation is
all the cost there is then. A plugin that has a definition for one node uses it for few rows, and its vectorised form
for many; both must give the same answer.
"""

from __future__ import annotations

from restow.model.cluster import Which

FEW = 16


def few_rows(rows: Which) -> list[int] | None:
    """The rows one by one, if they are few."""
    if isinstance(rows, slice) or len(rows) > FEW:
        return None
    numbers: list[int] = rows.tolist()
    return numbers
