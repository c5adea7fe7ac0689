"""The command line. Results go to standard output or to files, everything else to standard error.

Exit codes: 0 done; 1 done, but some paths did not converge; 2 bad input or a file that could not be
written; 3 a failure of the program or the machine; 130 stopped by Ctrl-C.
"""

import threading
import time
import traceback
import warnings
import webbrowser
from collections import Counter
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import orthodrome as od
from orthodrome.options import (
    Browser,
    Columns,
    Data,
    DataOrModel,
    Encoded,
    Folder,
    Header,
    Host,
    ImageShape,
    Index,
    Jobs,
    MatrixFile,
    Mesh,
    Port,
    Rho,
    Rtol,
    Sigma,
    Standardize,
    Tol,
    choose_solver,
    read,
    two_numbers,
)
from orthodrome.output import draw, require_file, save, write_rows

app = typer.Typer(
    help="Shortest paths and distances on manifolds learned from data.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
# no markup: names of files and columns may have brackets
say = Console(stderr=True, highlight=False, markup=False)
out = Console(highlight=False, markup=False)


class Exit(IntEnum):
    """What the exit codes mean to a script."""

    DONE = 0
    NOT_CONVERGED = 1
    BAD_INPUT = 2
    FAILED = 3
    STOPPED = 130


def main() -> None:
    """Run the command line; bad input becomes one line and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        told: Any = error
        if isinstance(error, OSError) and error.strerror and error.filename:
            told = f"{error.filename}: {error.strerror}."
        say.print(f"error: {told}", soft_wrap=True)
        raise SystemExit(Exit.BAD_INPUT) from None
    except Exception:
        traceback.print_exc()
        say.print(
            "that should not happen; what is in a checkpoint is kept, and the same command goes "
            "on from there"
        )
        raise SystemExit(Exit.FAILED) from None


def show_version(asked: bool) -> None:
    """Print the version and stop, if asked to."""
    if asked:
        out.print(f"orthodrome {od.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Shortest paths and distances on manifolds learned from data."""
    try:
        od.enable_compilation_cache()
    except OSError as error:
        say.print(f"{error} Without it, every run compiles anew.", soft_wrap=True)


@app.command(epilog="Example: orthodrome demo --out demo")
def demo(
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder for the figure and the table.")
    ] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Of the random data.")] = 0,
) -> None:
    """Geodesics on a manifold learned from 200 points on a half circle: a figure and a table."""
    from orthodrome import demo as job

    say.print(
        "learning a metric from 200 points and finding paths from one of them to the others …"
    )
    rows = job.run(out_dir, seed, say.print)
    table = Table(*job.HEADER, box=None, header_style="bold")
    for row in rows:
        table.add_row(*row)
    out.print(table)
    out.print(job.FOOTNOTE)
    out.print(f"\nfigure: {out_dir / job.FIGURE}\ntable:  {out_dir / job.TABLE}", soft_wrap=True)


@app.command(
    epilog="Example: orthodrome path points.csv --from 0 --to 17 --out curve.csv --plot curve.png"
)
def path(
    data: Data,
    from_: Annotated[
        str, typer.Option("--from", help="Row of the first point: its label, or counted from 0.")
    ],
    to: Annotated[str, typer.Option("--to", help="Row of the last point.")],
    columns: Columns = None,
    index: Index = None,
    standardize: Standardize = False,
    header: Header = None,
    sigma: Sigma = None,
    rho: Rho = None,
    rtol: Rtol = None,
    mesh: Mesh = None,
    tol: Tol = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write the curve as csv: t and the coordinates.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Draw the curve over the data, as png, pdf or svg (more than two columns: along "
                "principal components)."
            )
        ),
    ] = None,
    points: Annotated[int, typer.Option(help="Points of the curve in the csv.")] = 101,
) -> None:
    """The shortest path between two points of a data set."""
    table = read(data, columns, index, standardize, header)
    start, end = table.values[table.row(from_, "--from")], table.values[table.row(to, "--to")]
    if points < 2:
        raise ValueError(f"--points should be at least 2; {points} arrived.")
    require_file(out_file, "--out", [".csv"], data)
    require_file(plot, "--plot", [".png", ".pdf", ".svg"], data)
    if plot and table.values.shape[1] < 2:
        raise ValueError(f"--plot draws two columns or more; {data} has one.")
    metric, solver = od.LocalPCA(table.values, sigma, rho), choose_solver(rtol, mesh, tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)  # the lines below say it
        shortest = od.shortest_path(metric, start, end, solver)
    straight = np.linalg.norm(end - start)
    out.print(f"length      {shortest.length:.8g}")
    out.print(f"error       {shortest.error:.1e} (relative, estimated)")
    out.print(f"converged   {'yes' if shortest.converged else 'no'}")
    out.print(
        f"certified   {'yes' if shortest.certified else 'no'} (residual between the knots "
        f"{shortest.residual:.1e})"
    )
    out.print(f"in words    {shortest.message}", soft_wrap=True)
    say.print(f"{metric}; Euclidean distance {straight:.6g}", soft_wrap=True)
    if out_file:
        t = np.linspace(0, 1, points)
        write_rows(
            out_file,
            ["t", *table.columns],
            np.column_stack([t, table.in_units(shortest(t))]).tolist(),
        )
        say.print(f"wrote {out_file}", soft_wrap=True)
    if plot:
        draw(metric, shortest, plot)
        say.print(f"wrote {plot}", soft_wrap=True)
    raise typer.Exit(Exit.DONE if shortest.converged else Exit.NOT_CONVERGED)


@app.command(epilog="Example: orthodrome distances points.csv --out D.npy")
def distances(
    data: Data,
    out_file: MatrixFile,
    columns: Columns = None,
    index: Index = None,
    standardize: Standardize = False,
    header: Header = None,
    sigma: Sigma = None,
    rho: Rho = None,
    rtol: Rtol = None,
    mesh: Mesh = None,
    tol: Tol = None,
    checkpoint: Folder = None,
    jobs: Jobs = None,
) -> None:
    """All distances between the points of a data set.

    Pairs that did not converge are listed, with reasons, in a csv file beside the matrix.
    """
    table = read(data, columns, index, standardize, header)
    require_file(out_file, "--out", [".npy", ".npz", ".csv"], data)
    metric, solver = od.LocalPCA(table.values, sigma, rho), choose_solver(rtol, mesh, tol)
    n = len(table.values)
    say.print(f"{metric}; {n * (n - 1) // 2} paths", soft_wrap=True)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)  # the lines below say it
        try:
            D, info = od.distance_matrix(
                metric,
                table.values,
                solver=solver,
                n_jobs=jobs,
                progress=True,
                return_info=True,
                checkpoint=checkpoint,
            )
        except KeyboardInterrupt:
            if checkpoint is not None:
                say.print(
                    f"stopped: what is finished is in {checkpoint}, and the same command goes on "
                    "from there",
                    soft_wrap=True,
                )
            raise SystemExit(Exit.STOPPED) from None
    if out_file.suffix.lower() == ".npy":
        save(out_file, lambda stream: np.save(stream, D))
    elif out_file.suffix.lower() == ".csv":
        write_rows(
            out_file,
            ["", *table.labels],
            ([label, *row.tolist()] for label, row in zip(table.labels, D, strict=True)),
        )
    else:
        save(
            out_file,
            lambda stream: np.savez(
                stream, distances=D, labels=np.array(table.labels), **vars(info)
            ),
        )
    pairs = n * (n - 1) // 2
    converged, certified = (
        (np.count_nonzero(array) - n) // 2 for array in (info.converged, info.certified)
    )
    out.print(f"paths       {pairs} in {time.perf_counter() - began:.1f} s")
    out.print(f"converged   {converged}")
    out.print(f"certified   {certified}")
    out.print(f"written     {out_file}", soft_wrap=True)
    if certified < converged:
        say.print("without --mesh and --tol, the default solver certifies more of them")
    listed = out_file.with_suffix(".failures.csv")
    listed.unlink(missing_ok=True)  # an earlier run's
    if converged < pairs:
        failures = [
            (table.labels[i], table.labels[j], reason)
            for (i, j), reason in info.failures()
            if i < j
        ]
        for reason, count in Counter(reason for *_, reason in failures).items():
            say.print(
                f"{count} not converged: {reason}; their entries are upper bounds, or NaN",
                soft_wrap=True,
            )
        write_rows(listed, ["from", "to", "reason"], failures)
        say.print(f"which they are: {listed}", soft_wrap=True)
        raise typer.Exit(Exit.NOT_CONVERGED)


@app.command(epilog="Example: orthodrome reproduce semicircle land --full --out reproduction")
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Which experiments; all for none."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's sizes, or small ones.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of data, models and choices.")] = 0,
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder for results, figures and the report.")
    ] = Path("reproduction"),
    list_: Annotated[bool, typer.Option("--list", help="Show the experiments and stop.")] = False,
) -> None:
    """The paper's experiments, figures and tables: what it says beside what is measured here.

    Each writes its results as it goes: stop it when you like, and the same command goes on from
    there.
    """
    from orthodrome import experiments

    if list_:
        table = Table("name", "what", box=None, header_style="bold")
        for experiment in experiments.EXPERIMENTS.values():
            table.add_row(experiment.name, experiment.title)
        out.print(table)
        raise typer.Exit
    scale = "full" if full else "quick"
    tell = experiments.Tell(
        lambda text: say.print(text, soft_wrap=True), lambda text: say.status(text)
    )
    try:
        for experiment, summary in experiments.reproduce(names or [], scale, seed, out_dir, tell):
            out.print(f"{experiment.name}, {summary.seconds:.0f} s", style="bold")
            out.print(f"  paper: {summary.paper}\n  measured: {summary.measured}", soft_wrap=True)
            out.print(f"  figure: {out_dir / scale / summary.figure}", soft_wrap=True)
    except KeyboardInterrupt:
        say.print("stopped: what is finished is kept, and the same command goes on from there")
        raise SystemExit(Exit.STOPPED) from None
    out.print(f"report: {out_dir / scale / experiments.REPORT}", soft_wrap=True)


@app.command(epilog="Example: orthodrome explore points.csv")
def explore(
    file: DataOrModel,
    data: Encoded = None,
    columns: Columns = None,
    index: Index = None,
    standardize: Standardize = False,
    header: Header = None,
    sigma: Sigma = None,
    rho: Rho = None,
    image_shape: ImageShape = None,
    port: Port = None,
    host: Host = "127.0.0.1",
    browser: Browser = True,
) -> None:
    """A page in the browser: press two points and see the shortest path between them.

    It is served to this machine only, unless --host says otherwise. Ctrl-C ends it.
    """
    try:
        from orthodrome import explore as page
    except ImportError as error:
        raise ValueError(
            f"the page needs more than is installed ({error}): pip install 'orthodrome[explore]'."
        ) from None

    scene = page.open_scene(
        file,
        data,
        columns=None if columns is None else columns.split(","),
        index=index,
        standardize=standardize,
        header=header,
        sigma=sigma,
        rho=rho,
        image_shape=None if image_shape is None else two_numbers(image_shape, "--image-shape"),
    )

    def ready(address: str) -> None:
        out.print(f"{address}", soft_wrap=True)
        say.print("Ctrl-C ends it")
        if browser:
            threading.Thread(
                target=webbrowser.open, args=[address], daemon=True
            ).start()  # some browsers block

    page.serve(scene, host, port, ready)
