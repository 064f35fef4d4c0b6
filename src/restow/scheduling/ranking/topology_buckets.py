"""Buckets of rows that no CLUSTER plugin tells apart.

Goes in: what tells rows apart, one code per row (their domain of a topology key, their score by a preference), and the
keys of rows. Comes out: the largest key of each bucket, and with it the one row of the bucket that CLUSTER plugins need
to see. A cluster has few buckets (zones, nodes that meet a preference and nodes that do not), so that the best row of
all costs one look at the buckets, and a changed row one look at its bucket.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex
from restow.scheduling.ranking.key_blocks import Keys

_ROWS_PER_BUCKET = 8
"""With fewer rows to a bucket on average, buckets cost more than they save."""


def too_many_buckets(buckets: int, rows: int) -> bool:
    return buckets * _ROWS_PER_BUCKET > rows


class TopologyBuckets:
    __slots__ = ("_bucket_of", "_rows", "_sorted", "_starts", "maxima")

    def __init__(self, bucket_of: RowIndex, count: int) -> None:
        self._bucket_of = bucket_of
        self._sorted: RowIndex = np.argsort(bucket_of, kind="stable")
        self._starts: RowIndex = np.searchsorted(bucket_of[self._sorted], np.arange(count))
        self._rows = np.split(self._sorted, self._starts[1:])
        self.maxima: Keys = np.zeros(count, np.int64)
        """The largest key in each bucket."""

    @classmethod
    def of(cls, codes: Iterable[NDArray[np.int64]], size: int) -> TopologyBuckets | None:
        """The buckets of the first `size` rows, one for each combination of codes; None if these are too many."""
        count, bucket_of = min(size, 1), np.zeros(size, np.intp)
        for code in codes:
            values, each = np.unique(code[:size], return_inverse=True)
            combined, bucket_of = np.unique(bucket_of * len(values) + each.reshape(-1), return_inverse=True)
            count = len(combined)
            if too_many_buckets(count, size):
                return None
        return cls(bucket_of.reshape(-1), count) if count else None

    def refresh(self, keys: Keys) -> None:
        """Any keys may have changed."""
        np.maximum.reduceat(keys.take(self._sorted), self._starts, out=self.maxima)

    def key_changed(self, row: int, old: int, keys: Keys) -> None:
        """The key of one row changed. Rows added after the buckets were made have no Node yet, so they are refused."""
        if row >= len(self._bucket_of):
            return
        bucket, new = self._bucket_of.item(row), keys.item(row)
        if new >= self.maxima.item(bucket):
            self.maxima[bucket] = new
        elif old == self.maxima.item(bucket):
            self.maxima[bucket] = keys.take(self._rows[bucket]).max()
