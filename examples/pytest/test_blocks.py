"""What Python's own functions allocate. `pytest` runs these as plain tests; `allotrope test`
also compares the numbers.

CPython takes objects of up to 512 bytes from pools of its own, and larger ones from malloc.
"""

import pytest

ITERATIONS = 50


# Each object is one block of its header (33 bytes with the zero at the end) and its bytes:
# 50 blocks, 50 × 100,033 bytes.
@pytest.mark.allotrope(iterations=ITERATIONS)
def test_bytes():
    for _ in range(ITERATIONS):
        assert len(bytes(100_000)) == 100_000


# 100 blocks each.
@pytest.mark.allotrope(iterations=ITERATIONS)
@pytest.mark.parametrize("size", [1_000, 100_000])
def test_two_objects(size):
    for _ in range(ITERATIONS):
        pair = bytes(size), bytes(size)
        assert pair[0] == pair[1]


def test_that_is_not_measured():
    assert bytes(3) == b"\0\0\0"
