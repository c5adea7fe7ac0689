"""The contract of a metric: a newcomer's metric from points gets everything that `LocalPCA` gets.

The metric is the one of docs/how-to/custom-metric.md.
"""

import ast
import pathlib
import re
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import orthodrome as od
from orthodrome import batching, judging
from orthodrome.curves import PiecewiseCurve
from orthodrome.explore import scene_of
from orthodrome.explore.session import Session
from orthodrome.metrics.hints import hint
from orthodrome.solvers.graph import roads_of

PAGE = pathlib.Path(__file__).parent.parent / "docs/how-to/custom-metric.md"
DATA = od.datasets.two_moons(120, random_state=0)


def documented():
    """The class of the page, by running its block of code."""
    blocks = re.findall(r"^```\{code-cell\}\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.M)
    (block,) = [block for block in blocks if "class Density" in block]
    scope = {"__name__": "custom", "od": od, "np": np, "jnp": jnp}
    exec(compile(block, PAGE.name, "exec"), scope)
    return scope["Density"], block


Density, BLOCK = documented()


class Bare(Density):
    """The same tensor without a hint about its scale."""

    scale = np.inf


@pytest.fixture(scope="module")
def density():
    return Density(DATA, 0.2)


def test_it_takes_no_more_than_twenty_lines():
    assert len([line for line in BLOCK.splitlines() if line.strip()]) <= 20


def test_every_hint_has_one_default_and_may_be_a_field_a_property_or_a_constant():
    hints = {name for name, value in vars(od.Metric).items() if isinstance(value, hint)}
    assert hints == {
        "data", "scale", "concurrent", "diagonal", "embedded", "cure", "parameters", "facts",
    }  # fmt: skip

    class Field(od.Metric):
        scale: np.ndarray

        @property
        def dim(self):
            return 1

        def tensor_at(self, x):
            return jnp.eye(1)

    assert Field(np.asarray(3.0)).scale == 3.0  # a field,
    assert Density(DATA, 0.2).scale == 0.2  # a property,
    assert Density(DATA, 0.2).diagonal  # a constant,
    bare = Field(np.asarray(1.0))
    assert bare.data is None and not bare.concurrent and not bare.embedded  # or the default
    assert "made as" in dict(bare.facts)


def test_nothing_in_the_library_asks_for_the_class_of_a_metric():
    """Neither by `isinstance` or `issubclass`, nor by `type(...) is`, nor by `match`."""
    kinds, asking = {"LocalPCA", "Pullback", "MetricTensor"}, []
    for file in pathlib.Path(od.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            question = (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") in ("isinstance", "issubclass")
            ) or isinstance(node, ast.Compare | ast.MatchClass)
            named = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)} if question else set()
            asking += [file.name] * bool(kinds & named)
    assert not asking


def test_an_embedded_metric_needs_its_map_and_nothing_else():
    class Bowl(od.Metric):
        dim, embedded = 2, True

        def embed_at(self, x):
            return jnp.append(x, x @ x)

        def tensor_at(self, x):
            return jnp.eye(2) + 4 * jnp.outer(x, x)

    a, b = [-1.0, 0.5], [1.0, 0.5]
    path = od.shortest_path(Bowl(), a, b)
    same = od.distance(od.Pullback(lambda x: jnp.append(x, x @ x)), a, b)
    assert path.certified
    np.testing.assert_allclose(path.length, same, rtol=1e-9)


def test_a_diagonal_metric_that_is_not_one_or_not_finite_is_refused():
    class Claimed(od.Metric):
        dim, diagonal = 2, True
        infinite: np.ndarray

        def tensor_at(self, x):
            return jnp.where(self.infinite, jnp.diag(jnp.array([1.0, jnp.inf])), jnp.ones((2, 2)))

    for infinite in (True, False):
        with pytest.raises(ValueError, match="is not finite or not symmetric"):
            od.distance(Claimed(np.asarray(infinite)), [0.0, 0.0], [1.0, 0.0])


def test_a_full_metric_in_all_threads_calls_no_lapack_routine_in_batches():
    class Full(od.Metric):
        dim, concurrent = 3, True

        def tensor_at(self, x):
            return jnp.eye(3) + jnp.outer(x, x)

    class Alone(Full):
        concurrent = False

    x = np.random.default_rng(0).standard_normal((40, 3))
    together, apart = Full(), Alone()
    np.testing.assert_allclose(together.log_volume(x), apart.log_volume(x), rtol=1e-13)
    program = jax.make_jaxpr(together.smallest_eigenvalue_along)(jnp.asarray(x))
    assert "scan" in str(program)  # one by one
    assert "scan" not in str(jax.make_jaxpr(apart.smallest_eigenvalue_along)(jnp.asarray(x)))


def test_it_works_in_all_threads(density, monkeypatch):
    monkeypatch.setattr(batching, "cores", lambda: 2)
    assert batching._threads(density) == batching._threads(od.LocalPCA(DATA)) == 2
    assert batching._threads(od.MetricTensor(lambda x: jnp.eye(2), 2)) == 1


def test_starts_run_along_its_points(density):
    assert roads_of(density, None).nodes is not None
    route = od.shortest_path(density, DATA[0], DATA[1], od.Graph())
    assert route.converged
    best = od.shortest_path(density, DATA[0], DATA[1])
    assert best.certified and best.length <= route.length


def test_the_judge_looks_as_closely_as_its_scale_asks():
    """A straight line far outside, over one narrow spot: only the scale says that it is there."""
    spot = [*np.zeros((3, 2)), [0, 0], [0.001, 0], [0, 0.001]]
    a, b = np.array([[-10.3, 0.0]]), np.array([[10.0, 0.0]])
    line = PiecewiseCurve.through(np.stack([a, b], axis=1))
    t = np.linspace(0, 1, 200_001)[:, None]
    metric = Density(spot, 0.01, 1e-2)
    truth = np.mean(metric.norm(a + t * (b - a), np.broadcast_to(b - a, (len(t), 2))))
    seen, missed = (judging.judge(m, line, a, b) for m in (metric, Bare(spot, 0.01, 1e-2)))
    np.testing.assert_allclose(seen.length, truth, rtol=1e-4)
    assert abs(missed.length[0] / truth - 1) > 1e-4
    assert missed.error[0] < 1e-4  # and nobody would know


def test_no_step_of_exp_map_passes_over_its_scale():
    spot, base, velocity = [*np.zeros((2, 2)), [0, 0], [0, 0.001]], [-10.0, 0.012], [20.0, 0.0]
    end, blind = (od.exp_map(m(spot, 0.02, 1e-2), base, velocity) for m in (Density, Bare))
    assert abs(end[1] - 0.012) > 0.1
    np.testing.assert_allclose(blind, [10.0, 0.012], atol=1e-6)


def test_paths_are_saved_with_it(density, tmp_path):
    path = od.shortest_path(density, DATA[0], DATA[1:4])
    path.save(tmp_path / "paths.npz")
    back = od.Path.load(tmp_path / "paths.npz")
    assert type(back.metric) is Density
    for name, array in density.parameters.items():
        np.testing.assert_array_equal(getattr(back.metric, name), array)
    np.testing.assert_array_equal(back.speed(0.5), path.speed(0.5))


def test_a_class_that_is_not_there_is_no_error_until_it_is_needed(density, tmp_path, monkeypatch):
    od.shortest_path(density, DATA[0], DATA[1]).save(tmp_path / "path.npz")
    monkeypatch.delitem(od.Metric.kinds, "custom.Density")
    back = od.Path.load(tmp_path / "path.npz")
    assert back.metric is None and np.isfinite(back.length)
    with pytest.raises(ValueError, match=r"of a class that is not imported here.*metric=\.\.\."):
        back.speed(0.5)


def test_pictures_show_its_points_also_along_principal_components(density):
    ax = density.plot()
    assert len(ax.collections[0].get_offsets()) == len(DATA)
    deep = Density(np.random.default_rng(0).standard_normal((40, 3)), 0.5)
    ax = deep.plot()
    assert "principal component" in ax.get_xlabel()
    od.shortest_path(deep, deep.data[0], deep.data[1]).plot(ax)
    plt.close("all")


def test_its_card_has_a_sketch(density):
    card = density._repr_html_()
    assert "Density" in card and card.count("<circle") == len(DATA)


def test_the_page_shows_it(density):
    session = Session(scene_of(density, labels=[f"p{i}" for i in range(len(DATA))]))
    told = session.describe()
    assert told["labels"][3] == "p3" and told["sliders"] == {} and len(told["points"]) == len(DATA)
    answer = session.path({"start": 0, "end": 1})
    assert answer["certified"]
    expected = od.shortest_path(density, DATA[0], DATA[1]).length
    np.testing.assert_allclose(answer["length"], expected, rtol=1e-9)
    assert session.map({})["cells"]
    with pytest.raises(ValueError, match="has none of its own"):
        scene_of(od.MetricTensor(lambda x: jnp.eye(2), 2))


def test_kmeans_and_the_posterior_use_its_points(density):
    clusters = od.GeodesicKMeans(
        2, metric=density, random_state=0, solver=od.Energy(8, 1), max_iter=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)
        clusters.fit(DATA[::4])
    assert set(clusters.labels_) == {0, 1}
    np.testing.assert_allclose(density.prior_covariance(2), np.cov(DATA.T))


def test_matrices_of_it_are_kept_in_checkpoints(density, tmp_path):
    D = od.distance_matrix(density, DATA[:6], checkpoint=tmp_path / "run")
    again = od.distance_matrix(density, DATA[:6], checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(D, again)
    with pytest.raises(ValueError, match="made with other settings"):
        od.distance_matrix(Density(DATA, 0.25), DATA[:6], checkpoint=tmp_path / "run")


def test_local_pca_is_saved_with_its_truncation(tmp_path):
    metric = od.LocalPCA(DATA, 0.3, 0.05, truncation=1e-7)
    od.shortest_path(metric, DATA[0], DATA[1], od.Energy(8, 1)).save(tmp_path / "path.npz")
    assert od.Path.load(tmp_path / "path.npz").metric.truncation == 1e-7
