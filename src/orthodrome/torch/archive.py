"""What `torch.export.save` writes, read without torch: a graph in JSON and raw weights. Nothing in
it is ever executed.

torch's own reader unpickles parts of the file and evaluates strings of it; this one reads numbers
and names.
"""

import dataclasses
import json
import operator
import zipfile
from typing import Any, NamedTuple

import numpy as np

from orthodrome._types import Array

SCHEMA = 8
"""The version of the graph's layout that is known here; torch 2.8 and later write it."""

DTYPES = {
    1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.float16, 7: np.float32,
    8: np.float64, 12: np.bool_,
}  # fmt: skip
"""The numbers torch writes for the types of numbers."""

IGNORED = ("device", "layout", "pin_memory", "memory_format", "non_blocking")
"""Keywords that say where torch should keep a result."""

ARITHMETIC = {
    f"_operator.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg")
}
"""Operations on sizes, in graphs that were exported for any batch."""


class Name(NamedTuple):
    """An earlier result, by its name in the graph."""

    name: str


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type of numbers. How many digits they have is not kept: JAX computes in the precision of
    the point."""

    name: str
    """bool, int or float."""


class Step(NamedTuple):
    """One operation of a graph."""

    operation: str
    """torch's name with the overload: `aten.add.Tensor`."""
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    results: tuple[str, ...]
    several: bool
    """Whether the operation returns a list, even of one."""

    @property
    def known_as(self) -> str:
        """The operation's name without namespace and overload: `add`."""
        return self.operation.split(".")[1]


class Graph(NamedTuple):
    """A function as a list of operations: text and numbers, so that two graphs compare and hash by
    value."""

    weights: tuple[str, ...]
    input: str
    shape: tuple[int | None, ...]
    """Of the input; None for an axis of any length."""
    steps: tuple[Step, ...]
    outputs: tuple[str | None, ...]
    """None for what is no tensor."""


def read(file: Any) -> tuple[Graph, list[Array]]:
    """The graph of an exported program and its weights, in the order of `Graph.weights`."""
    with zipfile.ZipFile(file) as archive:
        names = {name.partition("/")[2]: name for name in archive.namelist()}
        text = lambda name: json.loads(archive.read(names[name]))
        try:
            program = text("models/model.json")
        except KeyError:
            raise ValueError(
                "it has no models/model.json: export it again with torch.export.save of torch 2.8 "
                "or later"
            ) from None
        version = program["schema_version"]["major"]
        if version != SCHEMA:
            raise ValueError(
                f"its graph has layout {version}, and {SCHEMA} is known: export it with another "
                "torch"
            )
        raw = lambda folder, path: archive.read(names[f"data/{folder}/{path}"])
        tensors = {}
        for folder in ("weights", "constants"):
            for name, entry in text(f"data/{folder}/model_{folder}_config.json")["config"].items():
                tensors[name] = _tensor(name, entry, lambda path, folder=folder: raw(folder, path))
    return _graph(program["graph_module"], tensors)


def _tensor(name: str, entry: dict[str, Any], raw: Any) -> Array:
    meta = entry["tensor_meta"]
    if entry["use_pickle"] or meta is None:
        raise ValueError(
            f"its tensor {name} is pickled, and nothing is unpickled here: save plain tensors"
        )
    if meta["dtype"] not in DTYPES:
        raise ValueError(
            f"its tensor {name} has a type of numbers that is not known here: save it as float32"
        )
    dtype = np.dtype(DTYPES[meta["dtype"]])
    data = np.frombuffer(raw(entry["path_name"]), dtype)
    sizes, strides = ([size["as_int"] for size in meta[key]] for key in ("sizes", "strides"))
    offset = meta["storage_offset"]["as_int"]
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if 0 in sizes:
        return np.zeros(sizes, dtype)
    if last >= len(data) or min([offset, *strides]) < 0:
        raise ValueError(f"its tensor {name} is larger than what is stored of it")
    steps = [stride * dtype.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(data[offset:], sizes, steps).copy()


def _graph(module: dict[str, Any], tensors: dict[str, Array]) -> tuple[Graph, list[Array]]:
    graph = module["graph"]
    weights, inputs = {}, []
    for spec in module["signature"]["input_specs"]:
        ((kind, content),) = spec.items()
        if kind == "user_input":
            inputs.append(content["arg"]["as_tensor"]["name"])
        else:
            held = (
                content.get("parameter_name")
                or content.get("buffer_name")
                or content.get("tensor_constant_name")
            )
            weights[content["arg"]["name"]] = tensors[held]
    if len(inputs) != 1:
        raise ValueError(f"it takes {len(inputs)} inputs; a decoder takes one")
    sizes = graph["tensor_values"][inputs[0]]["sizes"]
    used = json.dumps([graph["nodes"], graph["outputs"]])
    weights = {name: weight for name, weight in weights.items() if f'"{name}"' in used}
    return Graph(
        weights=tuple(weights),
        input=inputs[0],
        shape=tuple(size.get("as_int") for size in sizes),
        steps=tuple(_step(node) for node in graph["nodes"]),
        outputs=tuple(output.get("as_tensor", {}).get("name") for output in graph["outputs"]),
    ), list(weights.values())


def _step(node: dict[str, Any]) -> Step:
    args = tuple(_value(given["arg"]) for given in node["inputs"] if given["kind"] == 1)
    kwargs = tuple(
        (given["name"], _value(given["arg"])) for given in node["inputs"] if given["kind"] != 1
    )
    results = [_value(output) for output in node["outputs"]]
    several = len(results) != 1 or not isinstance(results[0], Name)
    names = results if len(results) != 1 or not several else results[0]
    return Step(
        operation=node["target"].removeprefix("torch.ops."),
        args=args,
        kwargs=tuple((name, value) for name, value in kwargs if name not in IGNORED),
        results=tuple(name.name for name in names),
        several=several,
    )


def _value(argument: dict[str, Any]) -> Any:
    """An argument as the file writes it, {kind: content}, as a Python value."""
    ((kind, content),) = argument.items()
    match kind:
        case "as_none":
            return None
        case "as_tensor" | "as_name":
            return Name(content["name"] if isinstance(content, dict) else content)
        case "as_float":
            return float(content)  # infinity is written as text
        case "as_int" | "as_bool" | "as_string":
            return content
        case "as_floats":
            return tuple(map(float, content))
        case "as_ints" | "as_bools":
            return tuple(content)
        case "as_scalar_type":
            return Kind(
                {"b": "bool", "f": "float"}.get(
                    np.dtype(DTYPES.get(content, np.float64)).kind, "int"
                )
            )
        case "as_tensors":
            return tuple(Name(tensor["name"]) for tensor in content)
        case "as_sym_int" | "as_sym_float" | "as_optional_tensor":
            return _value(content)
        case "as_sym_ints" | "as_sym_floats" | "as_optional_tensors" | "as_nested_tensors":
            return tuple(_value(item) for item in content)
        case _:  # a device, a layout: where torch should keep something
            return None
