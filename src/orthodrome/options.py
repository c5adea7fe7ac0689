"""What the command line's options are called and mean, and what is made of their values."""

from pathlib import Path
from typing import Annotated

import typer

import orthodrome as od

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="csv, tsv, npy or npz: a row a point. A header is understood."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns to use, by name or number, with commas between: x,y or 0,2."),
]
Index = Annotated[
    str | None,
    typer.Option(
        help=(
            "Column that says what the rows are called; a first column without a name is one by "
            "itself."
        )
    ),
]
Standardize = Annotated[
    bool,
    typer.Option("--standardize", help="Give every column mean 0 and standard deviation 1 first."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help=(
            "Whether the first line has the columns' names; if left out, it has if no number is "
            "in it."
        ),
        show_default=False,
    ),
]
Sigma = Annotated[
    float | None,
    typer.Option(help="Reach of the metric's weights; chosen from the data if left out."),
]
Rho = Annotated[
    float | None,
    typer.Option(help="Floor of the local variance; chosen from the data if left out."),
]
Rtol = Annotated[
    float | None,
    typer.Option(help="Relative error of the lengths that is asked for.", show_default="1e-4"),
]
Mesh = Annotated[
    int | None, typer.Option(help="Use the paper's solver, FixedPoint, with so many knots.")
]
Tol = Annotated[
    float | None, typer.Option(help="Use FixedPoint, with this squared error at a knot.")
]
MatrixFile = Annotated[
    Path,
    typer.Option(
        "--out",
        help=("Write the (n, n) matrix: .npy, .csv with labels, or .npz with errors and statuses."),
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Folder in which finished blocks are kept: stop or kill it, and the same command "
            "goes on from there. The matrix may then be larger than memory."
        )
    ),
]
Jobs = Annotated[
    int | None, typer.Option(help="Processes to spread the work over; -1: one a core.")
]
DataOrModel = Annotated[
    Path,
    typer.Argument(
        metavar="DATA|MODEL",
        help=(
            "Data: csv, tsv, npy or npz. Or a model: a VAE's .safetensors, or a PyTorch "
            "decoder exported as .pt2."
        ),
    ),
]
Encoded = Annotated[
    Path | None,
    typer.Option(
        help="With a model: the rows that a VAE encodes, or the latent codes of a decoder."
    ),
]
ImageShape = Annotated[
    str | None,
    typer.Option(
        help="With a model: height and width of its images, as 28x28; square if left out."
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Where the page is served; 0: any that is free.",
        show_default="8765",
    ),
]
Host = Annotated[
    str,
    typer.Option(help="The address it is served at. With another than this, others can reach it."),
]
Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
]


def two_numbers(text: str, option: str) -> tuple[int, int]:
    """What is written as 28x28."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"{option} should be height x width, such as 28x28; {text} arrived.")
    return int(parts[0]), int(parts[1])


def read(
    data: Path, columns: str | None, index: str | None, standardize: bool, header: bool | None
) -> od.io.Table:
    """The data file, with the chosen columns."""
    return od.io.read_data(
        data, None if columns is None else columns.split(","), index, standardize, header
    )


def choose_solver(rtol: float | None, mesh: int | None, tol: float | None) -> od.Solver:
    """`Auto`, or `FixedPoint` if one of its settings was given."""
    if mesh is None and tol is None:
        return od.Auto() if rtol is None else od.Auto(rtol=rtol)
    if rtol is not None:
        raise ValueError(
            "--rtol is for the default solver, --mesh and --tol are for FixedPoint: give one or "
            "the other."
        )
    return od.FixedPoint(mesh=10 if mesh is None else mesh, tol=0.1 if tol is None else tol)
