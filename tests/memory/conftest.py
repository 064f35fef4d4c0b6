from __future__ import annotations

import pytest

from tests.memory.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
