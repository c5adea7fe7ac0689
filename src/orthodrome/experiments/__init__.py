"""The paper's experiments, one module each: `orthodrome reproduce` runs them."""

import gc
import importlib.util
import json
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

from orthodrome import _boundary
from orthodrome.checkpoint import write
from orthodrome.experiments import (
    ablation,
    challenging,
    condition,
    constant_speed,
    digits,
    dimensions,
    failures,
    half_sphere,
    land,
    plateau,
    robustness,
    scaling,
    semicircle,
    split_sphere,
    steps,
    tangent,
)
from orthodrome.experiments.base import SUMMARY, Experiment, Summary, Tell, perform

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        condition,
        tangent,
        steps,
        plateau,
        semicircle,
        failures,
        dimensions,
        land,
        half_sphere,
        split_sphere,
        challenging,
        scaling,
        constant_speed,
        robustness,
        digits,
        ablation,
    )
}
"""In the order of the paper."""

SCALES = ("quick", "full")
REPORT = "report.md"


def require(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, all of them for none; refused where one is not there or needs
    what is not."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(
            f"there is no experiment {', '.join(unknown)}: choose among {', '.join(EXPERIMENTS)}."
        )
    chosen = [EXPERIMENTS[name] for name in names or EXPERIMENTS]
    for experiment in chosen:
        missing = [
            module for module in experiment.needs if importlib.util.find_spec(module) is None
        ]
        if missing:
            raise ValueError(
                f"{experiment.name} needs {', '.join(missing)}: pip install "
                "'orthodrome[experiments]', or name the "
                "others."
            )
    return chosen


def reproduce(
    names: Sequence[str], scale: str, seed: int, out: Path, tell: Tell
) -> Iterator[tuple[Experiment, Summary]]:
    """Run experiments one after another; yields each as it ends, and keeps the report of all up to
    date."""
    _boundary.one_of(scale, "scale", SCALES)
    _boundary.as_count(seed, "seed", 0)
    folder = out / scale
    for experiment in require(names):
        tell.say(f"{experiment.name}: {experiment.title}")
        summary = perform(experiment, folder / experiment.name, scale, seed, tell)
        text = report(finished(folder), scale)
        write(folder / REPORT, lambda path, text=text: path.write_text(text))  # type: ignore[misc]
        yield experiment, summary
        # compiled code takes memory maps, of which a process may have only so many
        jax.clear_caches()
        gc.collect()


def finished(folder: Path) -> list[Summary]:
    """The experiments whose summaries are there, also those of earlier runs, in the order of the
    paper."""
    files = [folder / name / SUMMARY for name in EXPERIMENTS]
    return [Summary(**json.loads(file.read_text())) for file in files if file.exists()]


def report(summaries: Sequence[Summary], scale: str) -> str:
    """Markdown: a table of all, paper beside measured; then each with its figure and numbers."""
    total = sum(summary.seconds for summary in summaries)
    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, jax "
        f"{jax.__version__}"
    )
    lines = [
        f"# The {scale} run: {total / 60:.1f} minutes",
        "",
        machine,
        "",
        "| | paper | measured |",
        "|---|---|---|",
    ]
    lines += [f"| {one.title} | {one.paper} | {one.measured} |" for one in summaries]
    for one in summaries:
        lines += [
            "",
            f"## {one.title}",
            "",
            f"`orthodrome reproduce {one.name} --{scale} --seed {one.seed}`, {one.seconds:.0f} s",
            "",
        ]
        if len(one.codes) > 1:
            lines += [f"Its parts were made by {len(one.codes)} versions of the code.", ""]
        lines += [
            f"paper: {one.paper}",
            "",
            f"measured: {one.measured}",
            "",
            f"![{one.title}]({one.figure})",
        ]
        if one.table:
            header, *rows = one.table
            lines += ["", f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
            lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
