"""Decoders from PyTorch: value, first and second derivative agree with torch; what is not known is
said."""

import math
import pickle
import warnings
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import orthodrome as od


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Mixed(nn.Module):
    """Reshapes, concatenation, indexing, arithmetic."""

    def forward(self, x):
        a, b = x.chunk(2, -1)
        c = torch.stack([a, b], 1).permute(0, 2, 1).flatten(1)
        d = x[:, 1:3].unsqueeze(-1).expand(-1, -1, 2).reshape(x.shape[0], -1)
        parts = [
            c * torch.exp(-(c**2)),
            torch.sqrt(d.abs() + 1),
            x.clamp(min=-0.5),
            torch.where(x > 0, x, 2 * x),
        ]
        return torch.cat(
            [*parts, x.sum(1, keepdim=True) / 3 - 1, x @ x.T, torch.tanh(x.transpose(0, 1)).T], 1
        )


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, x):
        x = self.linear(x)
        x.mul_(2.0)
        x += 1.0
        return nn.functional.elu(x, inplace=True)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 64), nn.RMSNorm(16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)

    def forward(self, x):
        return self.norm(self.layer(self.linear(x).reshape(-1, 4, 16))).mean(1)


def convolutional():
    return nn.Sequential(
        nn.Linear(10, 8 * 7 * 7), nn.BatchNorm1d(8 * 49), nn.Softplus(), nn.Unflatten(1, (8, 7, 7)),
        nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ELU(), Residual(nn.Conv2d(8, 8, 3, padding=1)),
        nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip


DECODERS = {
    "linear": (lambda: nn.Linear(3, 5), (3,)),
    "mlp": (lambda: nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3), nn.Tanh()), (4, 2)),
    "convolutional": (convolutional, (1, 10)),
    "dcgan": (lambda: nn.Sequential(nn.ConvTranspose2d(10, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.Tanh(), nn.ConvTranspose2d(16, 8, 4, 2, 1, output_padding=1, groups=2), nn.InstanceNorm2d(8, affine=True), nn.SiLU()), (5, 10, 1, 1)),
    "images": (lambda: nn.Sequential(nn.Unflatten(1, (2, 3, 4)), nn.Upsample(scale_factor=2, mode="bilinear"), nn.AvgPool2d(2), nn.Upsample(size=(7, 5)), nn.ReflectionPad2d(1), nn.ZeroPad2d((1, 0, 2, 1)), nn.Conv2d(2, 4, 3, dilation=2, groups=2, stride=(1, 2)), nn.GroupNorm(2, 4), nn.PixelShuffle(2), nn.ConvTranspose2d(1, 2, (3, 2), (3, 1), (1, 0), dilation=(2, 1)), nn.Mish()), (1, 24)),
    "signals": (lambda: nn.Sequential(nn.Unflatten(1, (3, 4)), nn.ConvTranspose1d(3, 6, 5, 3, 2, output_padding=2, groups=3), nn.GELU(), nn.Conv1d(6, 2, 3, padding="same"), nn.LayerNorm(12), nn.Flatten()), (1, 12)),
    "volume": (lambda: nn.Sequential(nn.Unflatten(1, (2, 2, 2, 2)), nn.ConvTranspose3d(2, 1, 3, 2, 1), nn.Softplus(3, 1.0)), (1, 16)),
    "mixed": (Mixed, (1, 6)),
    "in place": (InPlace, (3,)),
    "attention": (Attention, (1, 6)),
}  # fmt: skip


def prepared(module):
    """In eval mode, with a history in its batch norms that is not the trivial one."""
    torch.manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return module.eval()


def by_torch(module, shape, x, v):
    """g, the derivative along v and the second one, by gradients of gradients."""
    module = module.double().requires_grad_(False)
    batched = len(shape) > 1
    x = torch.tensor(x, requires_grad=True)
    with nn.attention.sdpa_kernel(
        nn.attention.SDPBackend.MATH
    ):  # the others have no second derivative
        g = module(x.reshape(1, *shape[1:]) if batched else x.reshape(shape))
    g = g[0] if batched else g
    derivatives, weight = [g], torch.zeros_like(g, requires_grad=True)
    form = (weight * g).sum()
    for _ in range(2):
        if form.requires_grad:  # a linear map has no second derivative
            (gradient,) = torch.autograd.grad(form, x, create_graph=True, allow_unused=True)
            form = torch.zeros(()) if gradient is None else gradient @ torch.tensor(v)
        along = (
            torch.autograd.grad(form, weight, create_graph=True, allow_unused=True)[0]
            if form.requires_grad
            else None
        )
        derivatives.append(torch.zeros_like(g) if along is None else along)
    return [part.detach().numpy() for part in derivatives]


def by_jax(f, x, v):
    with jax.enable_x64(True):
        velocity = lambda y: jax.jvp(f, (y,), (jnp.asarray(v),))[1]
        return [
            f(jnp.asarray(x)),
            velocity(jnp.asarray(x)),
            jax.jvp(velocity, (jnp.asarray(x),), (jnp.asarray(v),))[1],
        ]


@pytest.mark.parametrize("callback", [False, True], ids=["graph", "callback"])
@pytest.mark.parametrize("name", DECODERS)
def test_value_and_two_derivatives_agree_with_torch_to_rounding(name, callback):
    make, shape = DECODERS[name]
    module = prepared(make())
    d = math.prod(shape[1:] if len(shape) > 1 else shape)
    x, v = np.random.default_rng(0).standard_normal((2, d))
    f = od.from_torch(module, np.zeros(shape), callback=callback)
    for ours, theirs in zip(by_jax(f, x, v), by_torch(module, shape, x, v), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(
            ours, theirs, rtol=0, atol=1e-10 * max(1.0, np.abs(theirs).max())
        )


ACTIVATIONS = [nn.SELU(), nn.CELU(0.5), nn.Softsign(), nn.LogSigmoid(), nn.Hardswish(), nn.ReLU6(), nn.PReLU(), nn.GELU("tanh"), nn.Softplus(5, 2), nn.Threshold(0.1, 2), nn.Tanhshrink(), nn.Softshrink(), nn.Hardshrink(), nn.RReLU(), nn.Softmin(-1), nn.Identity(), nn.LeakyReLU(0.3), nn.ReLU(), nn.Hardtanh(-0.3, 0.4), nn.Dropout(0.5), nn.Softmax(-1), nn.LogSoftmax(-1), nn.ELU(0.7), nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.GLU()]  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_the_usual_activations_agree(activation):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(4, 6), activation, nn.Linear(3 if isinstance(activation, nn.GLU) else 6, 5)
    ).eval()
    x, v = np.random.default_rng(1).standard_normal((2, 4))
    f = od.from_torch(module, np.zeros(4))
    for ours, theirs in zip(by_jax(f, x, v), by_torch(module, (4,), x, v), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("callback", [False, True], ids=["graph", "callback"])
def test_jit_vmap_and_gradients_of_any_order_agree_with_each_other(callback):
    module = prepared(nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 4), nn.Tanh()))
    f = od.from_torch(module, np.zeros((1, 3)), callback=callback)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        X, u, w = (jnp.asarray(rng.standard_normal(shape)) for shape in ((5, 3), (3,), (4,)))
        many = jax.jit(jax.vmap(f))(X)
        np.testing.assert_allclose(many, [f(x) for x in X], atol=1e-12)
        forward, reverse = jax.jacfwd(f)(X[0]), jax.jacrev(f)(X[0])
        np.testing.assert_allclose(forward, reverse, atol=1e-12)
        np.testing.assert_allclose(jax.vmap(jax.jacfwd(f))(X)[0], forward, atol=1e-12)
        form = lambda x: w @ f(x)
        np.testing.assert_allclose(
            jax.hessian(form)(X[0]), jax.jacrev(jax.jacfwd(form))(X[0]), atol=1e-12
        )
        # d/dx of ½|Jv|² and its Hessian: what a Newton step on the energy needs
        energy = lambda x: 0.5 * jnp.sum(jax.jvp(f, (x,), (u,))[1] ** 2)
        slow = jax.jacfwd(jax.jacfwd(energy))(X[0])
        np.testing.assert_allclose(jax.hessian(energy)(X[0]), slow, atol=1e-12)
        np.testing.assert_allclose(jax.jit(jax.vmap(jax.hessian(energy)))(X)[0], slow, atol=1e-12)


def test_the_module_is_left_as_it_is_and_later_changes_are_not_seen():
    module = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5)).train()
    f = od.from_torch(module, np.zeros((7, 2)))
    before = by_jax(f, np.ones(2), np.ones(2))[0]
    assert (
        module.training
        and module[0].weight.dtype == torch.float32
        and module[0].weight.requires_grad
    )
    with torch.no_grad():
        module[0].weight += 1
    np.testing.assert_array_equal(by_jax(f, np.ones(2), np.ones(2))[0], before)


def test_an_unknown_operation_is_named_and_callback_takes_it():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.special.i0(x) + torch.lgamma(x.abs() + 3)

    with pytest.raises(
        NotImplementedError,
        match=r"aten\.lgamma\.default, aten\.special_i0\.default.*callback=True",
    ):
        od.from_torch(Odd(), np.zeros((1, 2)))
    f = od.from_torch(Odd(), np.zeros((1, 2)), callback=True)
    path = od.shortest_path(od.Pullback(f), [0.3, 0.4], [1.0, 1.2], solver=od.Energy(elements=8))
    assert path.certified
    straight = od.Pullback(od.from_torch(nn.Linear(2, 3), np.zeros(2), callback=True))
    length = od.shortest_path(
        straight, [0, 0], [0.3, 0.65], solver=od.Energy(elements=1, degree=1)
    ).length
    assert np.isclose(length, straight.norm([0, 0], [0.3, 0.65]))


class Detached(nn.Module):
    def forward(self, x):
        return torch.sin(x.detach())


class Bessel(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)  # torch has no derivative of it


class Random(nn.Module):
    def forward(self, x):
        return x + torch.randn(1, 2)


@pytest.mark.parametrize(
    ("kind", "why"), [(Detached, "zero"), (Bessel, "zero"), (Random, "chance")]
)
def test_callback_refuses_what_has_no_derivative_and_what_depends_on_chance(kind, why):
    with pytest.raises(ValueError, match=why):
        od.from_torch(kind(), np.ones((1, 2)), callback=True)


def test_a_module_that_hides_a_change_in_place_is_refused_rather_than_wrong():
    class Aliased(nn.Module):
        def forward(self, x):
            y = torch.tanh(x)
            y[:, :1].mul_(3.0)  # a view: y changes with it
            return y

    with pytest.raises(NotImplementedError, match="callback=True"):
        od.from_torch(Aliased(), np.ones((1, 2)))


def test_several_outputs_are_chosen_by_number():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.scale = nn.Linear(2, 3), nn.Linear(2, 3)

        def forward(self, z):
            return {"mean": self.mean(z), "std": nn.functional.softplus(self.scale(z))}

    module = Two()
    with pytest.raises(ValueError, match="returns 2 outputs"):
        od.from_torch(module, np.zeros((1, 2)))
    for callback in (False, True):
        mean, std = (
            od.from_torch(module, np.zeros((1, 2)), output=i, callback=callback) for i in (0, 1)
        )
        assert np.all(np.asarray(by_jax(std, np.zeros(2), np.zeros(2))[0]) > 0)
        assert od.Pullback(mean, std).tensor([0.0, 0.0]).shape == (2, 2)


def test_a_pt2_file_is_read_without_torch_for_any_batch(tmp_path):
    module = prepared(convolutional().double())
    x, v = np.random.default_rng(0).standard_normal((2, 10))
    theirs = by_torch(module, (1, 10), x, v)
    for name, rows, shapes in (
        ("one", 1, None),
        ("three", 3, None),
        ("any", 3, ({0: torch.export.Dim("batch")},)),
    ):
        program = torch.export.export(
            module, (torch.zeros(rows, 10, dtype=torch.float64),), dynamic_shapes=shapes
        )
        file = tmp_path / f"{name}.pt2"
        torch.export.save(program, file)
        for ours, expected in zip(by_jax(od.from_torch(file), x, v), theirs, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="example of"):
        od.from_torch(file, np.zeros((1, 4)))


def test_weights_come_from_safetensors_or_a_state_dict(tmp_path):
    from safetensors.torch import save_file

    trained, fresh = nn.Linear(2, 3), nn.Linear(2, 3)
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        f = od.from_torch(fresh, np.zeros(2), weights=tmp_path / name)
        np.testing.assert_allclose(
            by_jax(f, np.ones(2), np.ones(2))[0], trained(torch.ones(2)).detach(), atol=1e-6
        )
    given = od.from_torch(fresh, np.zeros(2), weights=trained.state_dict())
    np.testing.assert_array_equal(
        by_jax(given, np.ones(2), np.ones(2))[0], by_jax(f, np.ones(2), np.ones(2))[0]
    )
    with pytest.raises(ValueError, match="does not hold the weights"):
        od.from_torch(nn.Linear(2, 4), np.zeros(2), weights=tmp_path / "w.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="junk.safetensors cannot be read as weights"):
        od.from_torch(fresh, np.zeros(2), weights=tmp_path / "junk.safetensors")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        od.from_torch(fresh, np.zeros(2), weights=tmp_path / "none.pt")


def test_modules_in_the_wrong_place_or_form_are_named(tmp_path):
    with pytest.raises(TypeError, match="from_torch"):
        od.Pullback(nn.Linear(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        scripted = torch.jit.script(nn.Linear(2, 3))
    with pytest.raises(TypeError, match="not scripted"):
        od.from_torch(scripted, np.zeros(2))
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"should be \.pt2.*model\.onnx arrived\.$"):
        od.from_torch(tmp_path / "model.onnx", np.zeros(2))
    (tmp_path / "junk.pt").write_bytes(b"junk")
    with pytest.raises(ValueError, match="cannot be unpickled"):
        od.from_torch(tmp_path / "junk.pt", np.zeros(2), unpickle=True)
    flat = od.from_torch(nn.Linear(3, 2), np.zeros(3))
    with pytest.raises(ValueError, match="has 2 coordinates, the metric is on 3"):
        od.distance(od.Pullback(flat, ridge=0.1), np.zeros(2), np.ones(2))


class Trap:
    """Unpickling this leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (self.mark, "w"))


def test_no_file_is_unpickled_without_a_word(tmp_path):
    mark = tmp_path / "executed"
    program = torch.export.export(nn.Linear(2, 3), (torch.zeros(1, 2),))
    torch.export.save(program, tmp_path / "good.pt2")
    with (
        zipfile.ZipFile(tmp_path / "good.pt2") as good,
        zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad,
    ):
        for name in good.namelist():
            trapped = name.endswith(".pt") or "weight_" in name
            content = pickle.dumps(Trap(str(mark))) if trapped else good.read(name)
            if name.endswith("weights_config.json"):
                content = content.replace(b'"use_pickle": false', b'"use_pickle": true')
            bad.writestr(name, content)
    with pytest.raises(ValueError, match="pickled"):
        od.from_torch(tmp_path / "bad.pt2")
    (tmp_path / "whole.pt").write_bytes(pickle.dumps(Trap(str(mark))))
    with pytest.raises(ValueError, match="unpickle=True"):
        od.from_torch(tmp_path / "whole.pt", np.zeros((1, 2)))
    with pytest.raises(ValueError, match="as weights alone"):
        od.from_torch(nn.Linear(2, 3), np.zeros(2), weights=tmp_path / "whole.pt")
    assert not mark.exists()

    torch.save(nn.Linear(2, 3), tmp_path / "trusted.pt")
    assert od.from_torch(tmp_path / "trusted.pt", np.zeros(2), unpickle=True).dim == 2


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (TypeError, "nn.Module", lambda: od.from_torch(lambda x: x, np.zeros(2))),
        (ValueError, "needs an example", lambda: od.from_torch(nn.Linear(2, 3))),
        (ValueError, "cannot take the example", lambda: od.from_torch(nn.Linear(2, 3), np.zeros((1, 4)))),
        (FileNotFoundError, "no file", lambda: od.from_torch("nowhere.pt2")),
        (ValueError, "one point of shape", lambda: od.from_torch(nn.Linear(2, 3), np.zeros(2))(jnp.zeros(3))),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_advice(error, match, call):
    with pytest.raises(error, match=match):
        call()


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "x.pt2").write_text("nothing of the kind")
    with pytest.raises(ValueError, match="cannot be read as a decoder"):
        od.from_torch(tmp_path / "x.pt2")
    with zipfile.ZipFile(tmp_path / "y.pt2", "w") as archive:
        archive.writestr("a/b", "c")
    with pytest.raises(ValueError, match=r"models/model\.json"):
        od.from_torch(tmp_path / "y.pt2")


def test_equal_graphs_do_not_recompile():
    make = lambda seed: (
        torch.manual_seed(seed),
        nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)),
    )[1]
    one, other = (od.from_torch(make(seed), np.zeros((1, 2))) for seed in (0, 1))
    assert one.graph == other.graph and hash(one.graph) == hash(other.graph)
    assert jax.tree.structure(one) == jax.tree.structure(other)


class Function(nn.Module):
    """A function as a module, with something to keep beside it."""

    def __init__(self, function, kept=None):
        super().__init__()
        self.function = function
        self.register_buffer("kept", kept)

    def forward(self, x):
        return self.function(x) if self.kept is None else self.function(x, self.kept)


CASES = {
    "division that rounds": lambda x: torch.div(x, 0.3, rounding_mode="floor") + torch.div(x, 0.3, rounding_mode="trunc") * x,
    "sums over everything": lambda x: x * x.sum(dim=()) + x.var(unbiased=False) + torch.mean(x, dim=()),
    "masks made on the way": lambda x: torch.where(torch.ones(6, dtype=torch.bool), x, 0.0) + torch.full_like(x > 0, 0.5, dtype=torch.float64),
    "kinds of numbers": lambda x: x.to(torch.float64) * 2 + (x > 0).double() + (3 * x).long().double() * x,
    "infinite bounds": lambda x: torch.clamp(x, 0.1, math.inf) + torch.linalg.vector_norm(x, math.inf) * x,
    "positions": lambda x: x * torch.arange(1, 7, dtype=torch.float64) ** -1.5,
    "nothing is seen": lambda x: nn.functional.scaled_dot_product_attention(*[x.reshape(1, 3, 2)] * 3, torch.tril(torch.ones(3, 3), -1).bool()),
    "nearest": lambda x: nn.functional.interpolate(x.repeat(1, 3)[:, None, :14], size=18),
    "normalised": lambda x: nn.functional.normalize(x, dim=1),
    "attention with shared keys": lambda x: nn.functional.scaled_dot_product_attention(x.reshape(1, 2, 3, 1), x[:, :3].reshape(1, 1, 3, 1), x[:, 3:].reshape(1, 1, 3, 1), enable_gqa=True),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arguments_that_are_easily_overlooked_are_not(name):
    module = Function(CASES[name])
    x = np.random.default_rng(3).standard_normal(6)
    f = od.from_torch(module, np.zeros((1, 6)))
    with jax.enable_x64(True):
        np.testing.assert_allclose(f(jnp.asarray(x)), module(torch.tensor(x)[None])[0], atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        nn.ELU,
        nn.ReLU6,
        nn.ReLU,
        lambda: nn.Hardtanh(0, 1),
        lambda: Function(lambda x: x.clamp(0, 1)),
    ],
)
def test_at_a_kink_derivatives_are_those_of_torch(make):
    module = nn.Sequential(nn.Linear(2, 4, bias=False), make())
    graph, torchs = (
        od.from_torch(module, np.ones((1, 2)), callback=callback) for callback in (False, True)
    )
    with jax.enable_x64(True):
        np.testing.assert_array_equal(
            jax.jacfwd(graph)(jnp.zeros(2)), jax.jacfwd(torchs)(jnp.zeros(2))
        )


def test_a_change_in_place_under_another_name_is_refused_also_at_zero_and_from_files(tmp_path):
    def hidden(x):
        y = torch.tanh(x)
        y[:, :1].mul_(3.0)
        return y

    with pytest.raises(NotImplementedError, match="callback=True"):
        od.from_torch(Function(hidden), np.zeros((1, 2)))
    torch.export.save(
        torch.export.export(Function(hidden), (torch.zeros(1, 2),)), tmp_path / "hidden.pt2"
    )
    with pytest.raises(NotImplementedError, match="callback=True"):
        od.from_torch(tmp_path / "hidden.pt2")
    fine = nn.Sequential(
        nn.Linear(2, 4), nn.Unflatten(1, (2, 2)), nn.ReLU(inplace=True), nn.Flatten()
    )
    assert od.from_torch(fine, np.zeros((1, 2))).dim == 2


def test_training_mode_in_a_file_is_refused(tmp_path):
    module = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5)).train()
    torch.export.save(torch.export.export(module, (torch.zeros(1, 2),)), tmp_path / "chance.pt2")
    with pytest.raises(NotImplementedError, match="eval"):
        od.from_torch(tmp_path / "chance.pt2")


def test_whole_numbers_are_points_too():
    module = nn.Linear(2, 3)
    for callback in (False, True):
        f = od.from_torch(module, np.zeros(2), callback=callback)
        np.testing.assert_allclose(
            f(jnp.array([1, 2])), module(torch.tensor([1.0, 2.0])).detach(), atol=1e-6
        )
