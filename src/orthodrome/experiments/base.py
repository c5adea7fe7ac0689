"""What every experiment is: it computes in parts that are kept, draws what was kept, and says what
it measured."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.checkpoint import Checkpoint, Part, write
from orthodrome.compilation import sources

Results = dict[str, Any]
"""What `Experiment.compute` hands to the figure and to the sentence: parts, and what they are parts
of."""

SUMMARY, FIGURE = "summary.json", "figure.png"
SECONDS, CODE = "seconds of the part", "code of the part"
"""Where a part's file keeps how long it took, and by which code it was made."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper."""

    name: str
    """What it is called on the command line."""
    title: str
    paper: str
    """What the paper says came out."""
    quick: Mapping[str, Any]
    """Small settings: a run of a minute or so."""
    full: Mapping[str, Any]
    """The paper's settings; a solver that takes too long for them gets fewer problems, and the
    results say how many."""
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
    seed: int
    seconds: float
    """What its parts took, also those of an earlier run."""
    codes: list[str]
    """The versions of the library's code that made its parts: more than one, if it was changed
    between two runs."""
    figure: str


@dataclasses.dataclass(frozen=True)
class Tell:
    """How people are told of what is going on."""

    say: Callable[[str], Any] = print
    """A line, when something is finished."""
    working: Callable[[str], AbstractContextManager[Any]] = contextlib.nullcontext
    """What is under way, for as long as it is."""


def code() -> str:
    """A name for the library's code as it is: eight letters that change with any of its files."""
    return sources()[:8]


class Run:
    """An experiment under way: its settings, and the parts of it that are finished."""

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        settings: Mapping[str, Any],
        seed: int,
        tell: "Tell",
    ) -> None:
        """A folder that holds an experiment with other settings is refused, before anything is
        computed or lost."""
        self.settings, self.seed, self.tell = SimpleNamespace(**settings), seed, tell
        self.seconds, self.codes = 0.0, set[str]()
        made_with = {
            "experiment": experiment.name,
            "version": od.__version__,
            "seed": seed,
            **settings,
        }
        self.parts = Checkpoint(folder, made_with)

    def part(self, name: str, make: Callable[..., Mapping[str, Any]], *arguments: Any) -> Part:
        """Arrays that `make(*arguments)` computes, unless an earlier run has; read from the file in
        either case."""
        if not self.parts.has(name):
            began = time.perf_counter()
            with self.tell.working(f"  {name} …"):
                arrays = make(*arguments)
            took = time.perf_counter() - began
            self.parts.keep(name, {**arrays, SECONDS: took, CODE: code()})
            self.tell.say(f"  {name}: {took:.1f} s")
        part = self.parts.read(name)
        self.seconds += float(part.pop(SECONDS))
        self.codes.add(str(part.pop(CODE)))
        return part

    def model(self, name: str, train: Callable[[], od.models.VAE]) -> od.models.VAE:
        """A model that `train` trains, unless an earlier run has."""
        file = self.parts.folder / f"{name}.safetensors"

        def trained() -> dict[str, Any]:
            write(file, train().save)
            return {}

        self.part(f"{name}-training", trained)
        return od.models.VAE.load(file)


def perform(experiment: Experiment, folder: Path, scale: str, seed: int, tell: Tell) -> Summary:
    """Compute what is missing, draw, and write the summary."""
    import matplotlib.pyplot as plt

    run = Run(experiment, folder, getattr(experiment, scale), seed, tell)
    with run.parts:
        results = experiment.compute(run)
    with plt.rc_context({"axes.titlesize": "medium"}):  # several of them have to fit side by side
        figure = experiment.draw(results)
    write(folder / FIGURE, lambda path: figure.savefig(path, dpi=150, format="png"))
    plt.close(figure)
    summary = Summary(
        name=experiment.name,
        title=experiment.title,
        paper=experiment.paper,
        measured=experiment.measured(results),
        table=experiment.table(results) if experiment.table else [],
        seed=seed,
        seconds=run.seconds,
        codes=sorted(run.codes),
        figure=f"{folder.name}/{FIGURE}",
    )
    write(
        folder / SUMMARY,
        lambda path: path.write_text(json.dumps(dataclasses.asdict(summary), indent=1)),
    )
    return summary
