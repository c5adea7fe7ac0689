"""What every experiment is: it computes in parts that are kept, draws what was kept, and says what it measured."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od

Array = np.ndarray[Any, Any]
Part = dict[str, Array]
"""Arrays by name, as they are in a part's file."""
Results = dict[str, Any]
"""What `Experiment.compute` hands to the figure and to the sentence: parts, and what they are parts of."""

SETTINGS, SUMMARY, FIGURE = "settings.json", "summary.json", "figure.png"
SECONDS = "seconds of the part"
"""Where a part's file keeps how long it took."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper."""

    name: str
    """What it is called on the command line."""
    title: str
    paper: str
    """What the paper says came out."""
    quick: Mapping[str, Any]
    """Settings of a run of some seconds."""
    full: Mapping[str, Any]
    """Settings of the paper."""
    compute: "Callable[[Run], Results]"
    draw: Callable[[Results], Figure]
    measured: Callable[[Results], str]
    """What came out here, in the words of `paper`."""
    table: Callable[[Results], list[list[str]]] | None = None
    """Rows of numbers, the header first, where a sentence does not hold them."""
    needs: tuple[str, ...] = ()
    """Modules that do not come with the library itself."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """What is left of an experiment when it is over."""

    name: str
    title: str
    paper: str
    measured: str
    table: list[list[str]]
    seconds: float
    """What its parts took, also those of an earlier run."""
    figure: str


class Run:
    """An experiment under way: its settings, and the parts of it that are finished."""

    def __init__(
        self, experiment: Experiment, folder: Path, settings: Mapping[str, Any], seed: int, say: Callable[[str], Any]
    ) -> None:
        """A folder that holds an experiment with other settings is refused, before anything is computed or lost."""
        self.settings, self.seed, self.folder, self.say = SimpleNamespace(**settings), seed, folder, say
        self.seconds = 0.0
        made_with = {"experiment": experiment.name, "version": od.__version__, "seed": seed, **settings}
        made_with = json.loads(json.dumps(made_with))
        file = folder / SETTINGS
        if file.exists() and (there := json.loads(file.read_text())) != made_with:
            changed = [key for key in {**there, **made_with} if there.get(key) != made_with.get(key)]
            told = "; ".join(f"{key} was {there.get(key)!r} and is {made_with.get(key)!r}" for key in changed)
            raise ValueError(
                f"{folder} holds results made with other settings ({told}): choose another --out, or remove it."
            )
        folder.mkdir(parents=True, exist_ok=True)
        write(file, lambda path: path.write_text(json.dumps(made_with, indent=1)))

    def part(self, name: str, make: Callable[..., Mapping[str, Any]], *arguments: Any) -> Part:
        """Arrays that `make(*arguments)` computes, unless an earlier run has; read from the file in either case."""
        file = self.folder / f"{name}.npz"
        if not file.exists():
            began = time.perf_counter()
            arrays: dict[str, Any] = {key: np.asarray(value) for key, value in make(*arguments).items()}
            took = time.perf_counter() - began
            write(file, lambda path: np.savez(path, **arrays | {SECONDS: np.asarray(took)}))
            self.say(f"  {name}: {took:.1f} s")
        with np.load(file, allow_pickle=False) as stored:
            part = dict(stored)
        self.seconds += float(part.pop(SECONDS))
        return part

    def model(self, name: str, train: Callable[[], od.models.VAE]) -> od.models.VAE:
        """A model that `train` trains, unless an earlier run has."""
        file = self.folder / f"{name}.safetensors"

        def trained() -> dict[str, Any]:
            write(file, train().save)
            return {}

        self.part(f"{name}-training", trained)
        return od.models.VAE.load(file)


def write(file: Path, put: Callable[[Path], Any]) -> None:
    """Write a file all at once: whoever is killed meanwhile leaves either the old one or the new."""
    draft = file.with_name(f".{os.getpid()}-{file.name}")
    try:
        put(draft)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def perform(experiment: Experiment, folder: Path, scale: str, seed: int, say: Callable[[str], Any]) -> Summary:
    """Compute what is missing, draw, and write the summary."""
    import matplotlib.pyplot as plt

    run = Run(experiment, folder, getattr(experiment, scale), seed, say)
    results = experiment.compute(run)
    figure = experiment.draw(results)
    write(folder / FIGURE, lambda path: figure.savefig(path, dpi=150, format="png"))
    plt.close(figure)
    summary = Summary(
        name=experiment.name,
        title=experiment.title,
        paper=experiment.paper,
        measured=experiment.measured(results),
        table=experiment.table(results) if experiment.table else [],
        seconds=run.seconds,
        figure=f"{folder.name}/{FIGURE}",
    )
    write(folder / SUMMARY, lambda path: path.write_text(json.dumps(dataclasses.asdict(summary), indent=1)))
    return summary
