"""Where descents begin: every start joins its own ends, and neighbours tell each other what they
found."""

import numpy as np

from orthodrome.solvers import starts

TIMES = np.linspace(0, 1, 33)


def arc(a, b, height):
    line = a + TIMES[:, None] * (b - a)
    return line + height * np.sin(np.pi * TIMES)[:, None] * np.array([0.0, 1.0])


def test_bows_leave_the_line_to_both_sides_by_the_size_asked_for(rng):
    a, b = rng.standard_normal((2, 5, 4))
    found = starts.bows(a, b, TIMES, 0, ((0, 0.25), (1, 0.5)))
    line = (a[:, None] + TIMES[:, None] * (b - a)[:, None])[:, None]
    np.testing.assert_allclose(
        found[:, :, [0, -1]],
        np.stack([a, b], axis=1)[:, None] + 0 * found[:, :, [0, -1]],
        atol=1e-12,
    )
    np.testing.assert_allclose(
        found[:, 0::2] + found[:, 1::2], 2 * line + 0 * found[:, 0::2], atol=1e-12
    )
    apart = (
        np.linalg.norm(found - line, axis=-1).max(axis=2) / np.linalg.norm(b - a, axis=1)[:, None]
    )
    np.testing.assert_allclose(
        apart, np.broadcast_to([0.25, 0.25, 0.5, 0.5], apart.shape), rtol=1e-12
    )


def test_a_neighbours_path_is_offered_where_it_differs_and_begins_at_the_own_ends():
    origin, near, near_too, far = np.array([[0.0, 0.0], [4.0, 0.0], [4.1, 0.0], [9.0, 5.0]])
    a, b = np.array([origin, origin, origin]), np.array([near, near_too, far])
    best = np.stack([arc(origin, near, 1.0), arc(origin, near_too, -1.0), arc(origin, far, 1.0)])
    curves, there, news = starts.from_neighbours(a, b, best, TIMES)
    assert there[:2].any(axis=1).all() and news[0].any() and news[1].any()
    offered = curves[0, np.argmax(news[0])]
    np.testing.assert_allclose(offered[[0, -1]], [origin, near], atol=1e-12)
    assert offered[16, 1] < -0.9  # it goes the other way round
    alike = np.stack([best[0], arc(origin, near_too, 1.0), best[2]])
    _, there, news = starts.from_neighbours(a, b, alike, TIMES)
    assert there[0].any() and not news[0].any() and not news[1].any()


def test_problems_with_no_end_in_common_have_no_neighbours(rng):
    ends = np.unique(rng.standard_normal((8, 2)), axis=0)
    best = ends[:4, None] + TIMES[:, None] * (ends[4:] - ends[:4])[:, None]
    _, there, news = starts.from_neighbours(ends[:4], ends[4:], best, TIMES)
    assert not there.any() and not news.any()
    one = starts.from_neighbours(ends[:1], ends[4:5], best[:1], TIMES)
    assert not one[1].any()
