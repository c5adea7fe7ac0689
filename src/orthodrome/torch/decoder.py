"""`from_torch`: a PyTorch decoder as a function of one point that JAX can differentiate."""

import copy
import io
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array, ArrayLike, JaxArray
from orthodrome.torch import archive, aten, images, norms, shapes
from orthodrome.torch.callback import Callback, as_real, chosen_output

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Weights = str | Path | Mapping[str, Any] | None
"""Of a module: a file of theirs, or arrays by name."""

OPERATIONS = aten.TABLE | norms.TABLE | shapes.TABLE | images.TABLE

VIEWS = {
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "slice", "select", "transpose",
    "swapaxes", "permute", "expand", "expand_as", "unsqueeze", "squeeze", "chunk", "split",
    "split_with_sizes", "unbind", "t", "numpy_T", "alias", "detach", "contiguous", "to",
}  # fmt: skip
"""Operations whose result may be the same numbers in memory under another name."""

PROBES = 3
"""Points near the example at which a decoder that was read from a module is compared with it,
besides the example."""

AGREEMENT = 1e-8
"""A decoder that was read from a module may differ from it by so much, relatively, at the
example."""


class Decoder(eqx.Module):
    """A decoder read from PyTorch: a function of one point `(d,)`, in plain JAX, whose weights are
    its leaves."""

    concurrent: ClassVar[bool] = True

    weights: list[Any]
    graph: archive.Graph = eqx.field(static=True)
    output: int = eqx.field(static=True)
    """Which of the graph's outputs."""

    @property
    def dim(self) -> int:
        """d: the number of coordinates of a point."""
        return math.prod(self._point_shape)

    @property
    def _batched(self) -> bool:
        return len(self.graph.shape) > 1

    @property
    def _point_shape(self) -> tuple[int, ...]:
        return tuple(size or 1 for size in self.graph.shape[self._batched :])

    def __call__(self, x: JaxArray) -> Any:
        """The decoder's output for one point, without the batch axis."""
        x = as_real(x)
        if x.shape != (self.dim,):
            raise ValueError(
                f"the decoder takes one point of shape ({self.dim},); a shape of {x.shape} arrived."
            )
        point = x.reshape(self._point_shape)
        if (
            self._batched
        ):  # a graph that was exported for so many points gets the same one so many times
            point = jnp.broadcast_to(point, (self.graph.shape[0] or 1, *point.shape))
        values = {self.graph.input: point}
        for name, weight in zip(self.graph.weights, self.weights, strict=True):
            values[name] = jnp.asarray(
                weight, x.dtype if jnp.issubdtype(weight.dtype, jnp.floating) else None
            )
        for step in self.graph.steps:
            _perform(step, values)
        out = values[str(self.graph.outputs[self.output])]
        if not self._batched:
            return out
        if out.ndim == 0 or len(out) != len(point):
            raise ValueError(
                "the decoder's output should have the batch as its first axis; its shape is "
                f"{out.shape}."
            )
        return out[0]


def _perform(step: archive.Step, values: dict[str, Any]) -> None:
    if not step.results:  # a check of torch's own
        return
    fill = lambda given: _filled(given, values)
    try:
        out = _function(step)(
            *map(fill, step.args), **{name: fill(value) for name, value in step.kwargs}
        )
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise NotImplementedError(f"{step.operation} with these arguments: {reason}") from error
    values.update(zip(step.results, out if step.several else [out], strict=True))
    if step.known_as.endswith("_") and isinstance(step.args[0], archive.Name):  # done in place
        values[step.args[0].name] = out


def _filled(given: object, values: dict[str, Any]) -> Any:
    if isinstance(given, archive.Name):
        return values[given.name]
    return [_filled(item, values) for item in given] if isinstance(given, tuple) else given


def _require_no_hidden_changes(graph: archive.Graph, name: str) -> None:
    """Refuse a change in place of something that is used again under another name: only torch knows
    what it then is."""
    memory: dict[str, str] = {}  # of each name, the one whose numbers it shares
    stale: set[str | None] = set()
    for step in graph.steps:
        if _names_in([step.args, step.kwargs]) & stale:
            raise NotImplementedError(
                f"{name} changes an array in place and then uses it under another name (in "
                f"{step.operation}): "
                "from_torch(module, example, callback=True) calls torch itself."
            )
        first = step.args[0].name if step.args and isinstance(step.args[0], archive.Name) else ""
        if step.known_as.endswith("_") and step.known_as != "detach_":
            shared = memory.get(first, first)
            stale |= {
                other
                for other in {shared, *memory}
                if memory.get(other, other) == shared and other != first
            }
            memory[first] = step.results[0]
        elif step.known_as in VIEWS:
            memory |= dict.fromkeys(step.results, memory.get(first, first))
    if stale & set(graph.outputs):
        raise NotImplementedError(
            f"{name} returns an array that it changed in place under another name: pass "
            "callback=True."
        )


def _names_in(given: object) -> set[str | None]:
    if isinstance(given, archive.Name):
        return {given.name}
    return set().union(*map(_names_in, given)) if isinstance(given, list | tuple) else set()


def _function(step: archive.Step) -> Any:
    """What an operation does in JAX; None if that is not known."""
    if step.operation in archive.ARITHMETIC:
        return archive.ARITHMETIC[step.operation]
    namespace, name, *_ = step.operation.split(".")
    return OPERATIONS.get(name.rstrip("_")) or OPERATIONS.get(name) if namespace == "aten" else None


def from_torch(
    module: "Module | str | Path",
    example: ArrayLike | None = None,
    *,
    weights: Weights = None,
    output: int | None = None,
    callback: bool = False,
    unpickle: bool = False,
) -> Decoder | Callback:
    """A PyTorch decoder as a JAX function of one point `(d,)`, for `Pullback` and everything else.

    `module` is a `torch.nn.Module`, or a file: `.pt2` as `torch.export.save` writes it. `example`
    is an input for the module, an array with the shape it takes; if it has more than one axis, the
    first is the batch. The module is copied, put into eval mode and made float64; yours is left as
    it is, and later changes to it are not seen. It is exported and its graph read into JAX
    operations, which agree with torch to rounding, in the derivatives too.

    `weights`: a state dict, a `.safetensors` file, or one of `torch.save(module.state_dict(),
    file)`, to be loaded into the module first. `output`: which one, if the module returns several.
    `callback=True` calls torch itself instead, for modules with operations that are not known here:
    slower. `unpickle=True` is your word that `module` is a file of a whole pickled module, from
    somebody you trust: reading it runs whatever code it holds. Nothing else is ever unpickled. A
    `.pt2` file is read without torch.
    """
    if isinstance(module, str | Path) and not unpickle:
        return _from_file(Path(module), example, weights, output, callback)
    torch = _require_torch()
    loaded = _loaded(torch, module, weights)
    rows = _example_of(torch, example)
    if callback:
        return Callback.of(loaded, rows, output)
    program = _exported(torch, loaded, rows)
    file = io.BytesIO()
    torch.export.save(program, file)
    decoder = _decoder(*archive.read(file), output, "the module")
    _require_agreement(torch, decoder, loaded, rows)
    return decoder


def _require_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError(
            "from_torch of a module needs PyTorch: pip install 'orthodrome[torch]'."
        ) from None
    return torch


def _from_file(
    file: Path, example: ArrayLike | None, weights: Weights, output: int | None, callback: bool
) -> Decoder:
    if not file.exists():
        raise FileNotFoundError(f"there is no file {file}.")
    if file.suffix != ".pt2":
        weights_only = "weights belong to a module: from_torch(module, example, weights=file)"
        advice = {".safetensors": weights_only} | dict.fromkeys(
            (".pt", ".pth", ".pkl"),
            "a pickled module can run any code when it is read; if you trust it, pass "
            "unpickle=True; " + weights_only,
        )
        told = f": {advice[file.suffix]}" if file.suffix in advice else ""
        raise ValueError(
            f"a decoder's file should be .pt2, as torch.export.save writes it; {file} "
            f"arrived{told}."
        )
    if callback or weights is not None:
        raise ValueError(
            f"callback and weights need a module; {file} arrived: pass the module and an example."
        )
    try:
        graph, tensors = archive.read(file)
        decoder = _decoder(graph, tensors, output, str(file))
    except NotImplementedError:
        raise
    except Exception as error:
        raise ValueError(
            f"{file} cannot be read as a decoder: {str(error).rstrip('.')}."
        ) from error
    if example is not None and np.shape(example)[decoder._batched :] != decoder._point_shape:
        raise ValueError(
            f"{file} takes inputs of shape {graph.shape}; an example of {np.shape(example)} "
            "arrived."
        )
    return decoder


def _loaded(torch: ModuleType, module: "Module | str | Path", weights: Weights) -> "Module":
    """The module as it is to be read: a copy in eval mode and float64."""
    if isinstance(module, str | Path):
        module = _unpickled(torch, Path(module))
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise TypeError(
            "module should be a torch.nn.Module, not scripted, or a .pt2 file; "
            f"{type(module).__name__} arrived."
        )
    loaded: Module = copy.deepcopy(module).cpu()
    if weights is not None:
        held, name = (
            (weights, "weights")
            if isinstance(weights, Mapping)
            else (_state_dict(torch, weights), weights)
        )
        try:
            loaded.load_state_dict(held)
        except RuntimeError as error:
            raise ValueError(f"{name} does not hold the weights of this module: {error}") from None
    return loaded.double().eval().requires_grad_(False)


def _unpickled(torch: ModuleType, file: Path) -> Any:
    """A whole module, read with the caller's word that this is safe."""
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}.")
    try:
        return torch.load(file, map_location="cpu", weights_only=False)
    except Exception as error:
        raise ValueError(
            f"{file} cannot be unpickled ({error}): the module's class must be importable under "
            "the name it had."
        ) from error


def _state_dict(torch: ModuleType, weights: str | Path) -> Any:
    """Weights from a file; objects other than tensors are refused, not made."""
    file = Path(weights)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}.")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{file} cannot be read as weights alone: pass a .safetensors file, or one of "
            "torch.save(module.state_dict(), file)."
        ) from error


def _example_of(torch: ModuleType, example: ArrayLike | None) -> Any:
    """One row of the example, as a float64 tensor."""
    if example is None:
        raise ValueError(
            "from_torch needs an example: an array with the shape the module takes, as zeros((1, "
            "d))."
        )
    rows = torch.as_tensor(_boundary.as_floats(example, "example"))
    if rows.ndim == 0 or rows.numel() == 0:
        raise ValueError(
            f"example should be one input of the module; a shape of {tuple(rows.shape)} arrived."
        )
    return rows[:1] if rows.ndim > 1 else rows


def _exported(torch: ModuleType, module: "Module", rows: "Tensor") -> Any:
    try:
        with torch.no_grad():
            module(rows)
    except Exception as error:
        raise ValueError(
            f"the module cannot take the example, of shape {tuple(rows.shape)}: "
            f"{type(error).__name__}: {error}"
        ) from error
    try:
        return torch.export.export(module, (rows,))
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise NotImplementedError(
            f"torch.export cannot write this module as a graph ({first}): pass callback=True to "
            "call torch itself."
        ) from error


def _decoder(graph: archive.Graph, tensors: list[Array], output: int | None, name: str) -> Decoder:
    lacking = sorted({step.operation for step in graph.steps if _function(step) is None})
    if lacking:
        raise NotImplementedError(
            f"{name} uses operations that orthodrome does not know: {', '.join(lacking)}. "
            "from_torch(module, example, callback=True) calls torch itself instead: slower, but "
            "it knows them all."
        )
    _require_no_hidden_changes(graph, name)
    decoder = Decoder(_in_double(tensors), graph, chosen_output(output, list(graph.outputs), name))
    with _boundary.double_precision():
        try:
            jax.eval_shape(decoder, jax.ShapeDtypeStruct((decoder.dim,), jnp.float64))
        except NotImplementedError as error:
            raise NotImplementedError(
                f"{name} uses {str(error).rstrip('.')}. from_torch(module, example, "
                "callback=True) calls torch itself."
            ) from error
    return decoder


def _in_double(tensors: list[Array]) -> list[Array]:
    return [tensor.astype(np.float64) if tensor.dtype.kind == "f" else tensor for tensor in tensors]


def _require_agreement(
    torch: ModuleType, decoder: Decoder, module: "Module", rows: "Tensor"
) -> None:
    """Refuse a decoder that is not what the module is, seen at the example and at points around
    it."""
    rng = np.random.default_rng(0)
    for probe in range(1 + PROBES):
        near = rows + (probe > 0) * torch.as_tensor(rng.standard_normal(rows.shape))
        with torch.no_grad():
            theirs = torch.utils._pytree.tree_leaves(module(near.clone()))[decoder.output].numpy()
        theirs = theirs[0] if rows.ndim > 1 else theirs
        with _boundary.double_precision():
            ours = np.asarray(eqx.filter_jit(decoder)(jnp.asarray(near.numpy().ravel())))
        finite = np.isfinite(theirs)
        same = ours.shape == theirs.shape and np.array_equal(np.isfinite(ours), finite)
        if not same or np.any(
            np.abs(ours - theirs)[finite] > AGREEMENT * np.abs(theirs[finite]).max(initial=0.0)
        ):
            raise NotImplementedError(
                "the module's graph in JAX does not agree with the module. It may change arrays "
                "in place or return "
                "something that depends on chance; from_torch(module, example, callback=True) "
                "calls torch itself."
            )
