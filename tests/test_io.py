"""Files: what is in them comes in, and what is wrong with them is said with its line."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orthodrome.io import read_data

ROWS = np.array([[1.0, 2.5], [3.0, -4.0], [0.125, 6e-7]])


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t"), (".CSV", ",")])
@pytest.mark.parametrize("header", ["", "width,height\n"])
def test_text_with_and_without_a_header(tmp_path, suffix, delimiter, header):
    file = tmp_path / f"data{suffix}"
    lines = "\n".join(delimiter.join(map(repr, map(float, row))) for row in ROWS)
    file.write_text("\ufeff" + header.replace(",", delimiter) + lines + "\n\n", encoding="utf-8")
    table = read_data(file)
    np.testing.assert_array_equal(table.values, ROWS)
    assert table.columns == (("width", "height") if header else ("x0", "x1"))


def test_numpy_files(tmp_path):
    np.save(tmp_path / "a.npy", ROWS.astype(np.float32))
    np.savez(tmp_path / "one.npz", anything=ROWS)
    np.savez(tmp_path / "two.npz", other=np.zeros(3), data=ROWS)
    np.testing.assert_allclose(read_data(tmp_path / "a.npy").values, ROWS, rtol=1e-6)
    for name in ("one.npz", "two.npz"):
        np.testing.assert_array_equal(read_data(tmp_path / name).values, ROWS)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(2, 6), st.integers(1, 4)),
        elements=st.floats(-1e300, 1e300),
        unique=True,
    )
)
def test_every_number_survives_a_csv(tmp_path, values):
    np.savetxt(tmp_path / "x.csv", values, delimiter=",", fmt="%.17g")
    np.testing.assert_array_equal(read_data(tmp_path / "x.csv").values, values)


def test_other_columns_may_hold_anything(tmp_path):
    (tmp_path / "x.csv").write_text(",label,x,y\n0,a,1,2\n1,b,3,4\n")
    np.testing.assert_array_equal(
        read_data(tmp_path / "x.csv", ["x", "y"]).values, [[1, 2], [3, 4]]
    )


def test_columns_by_name_and_number(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    table = read_data(tmp_path / "x.csv", ["c", "0"])
    np.testing.assert_array_equal(table.values, [[3, 1], [6, 4]])
    assert table.columns == ("c", "a")
    with pytest.raises(ValueError, match="has no column 'd'; it has a, b, c"):
        read_data(tmp_path / "x.csv", ["d"])
    with pytest.raises(ValueError, match="column a of .* is asked for twice"):
        read_data(tmp_path / "x.csv", ["a", "0"])
    assert repr(table) == "Table(2 rows of c, a)"


def test_a_header_may_be_numbers_if_somebody_says_so(tmp_path):
    (tmp_path / "x.csv").write_text("1990,1991\n1,2\n3,4\n")
    assert len(read_data(tmp_path / "x.csv").values) == 3
    table = read_data(tmp_path / "x.csv", ["1991"], header=True)
    np.testing.assert_array_equal(table.values, [[2], [4]])
    assert table.columns == ("1991",)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(ValueError, match="line 1, column x0: a number was expected, 'a' arrived"):
        read_data(tmp_path / "x.csv", header=False)


def test_a_name_that_two_columns_have_does_not_choose_one(tmp_path):
    (tmp_path / "x.csv").write_text("a,a\n1,2\n3,4\n")
    with pytest.raises(ValueError, match="has 2 columns called 'a': say which by number, from 0"):
        read_data(tmp_path / "x.csv", ["a"])
    np.testing.assert_array_equal(read_data(tmp_path / "x.csv", ["1"]).values, [[2], [4]])


def test_an_index_is_kept_and_finds_rows(tmp_path):
    (tmp_path / "pandas.csv").write_text(",x,y\nfirst,1,2\nsecond,3,4\n")
    (tmp_path / "named.tsv").write_text("x\tname\ty\n1\tfirst\t2\n3\tsecond\t4\n")
    for table in (
        read_data(tmp_path / "pandas.csv"),
        read_data(tmp_path / "named.tsv", index="name"),
    ):
        np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
        assert table.columns == ("x", "y") and table.index == table.labels == ("first", "second")
        assert table.row("second", "--to") == 1
        with pytest.raises(
            ValueError, match="--to should be a label of the index, such as first; third arrived"
        ):
            table.row("third", "--to")
    np.save(tmp_path / "x.npy", ROWS)
    table = read_data(tmp_path / "x.npy", index="0")
    assert table.columns == ("x1",) and table.index == ("1", "3", "0.125")
    np.save(tmp_path / "ids.npy", [[1234567.0, 1], [1234568, 2]])
    assert read_data(tmp_path / "ids.npy", index="0").index == ("1234567", "1234568")
    plain = read_data(tmp_path / "x.npy")
    assert plain.index is None and plain.labels == ("0", "1", "2") and plain.row("2", "--to") == 2
    with pytest.raises(ValueError, match="--to should be a row from 0 to 2; 3 arrived"):
        plain.row("3", "--to")
    (tmp_path / "twins.csv").write_text(",x\na,1\na,2\n")
    with pytest.raises(ValueError, match="2 rows are called 'a'"):
        read_data(tmp_path / "twins.csv").row("a", "--from")


def test_standardised_columns_can_be_turned_back(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    table = read_data(tmp_path / "x.npy", standardize=True)
    np.testing.assert_allclose(table.values.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(table.values.std(axis=0), 1, rtol=1e-14)
    np.testing.assert_allclose(table.in_units(table.values), ROWS, atol=1e-15)
    np.testing.assert_array_equal(read_data(tmp_path / "x.npy").in_units(ROWS), ROWS)
    np.save(tmp_path / "flat.npy", [[1.0, 2.0], [1.0, 3.0]])
    with pytest.raises(
        ValueError, match="column x0 is the same in every row and cannot be standardised"
    ):
        read_data(tmp_path / "flat.npy", standardize=True)
    # whose mean is not 0.1 to the last digit
    np.save(tmp_path / "flat.npy", [[0.1, 2.0], [0.1, 3.0], [0.1, 4.0]])
    with pytest.raises(ValueError, match="column x0 is the same in every row"):
        read_data(tmp_path / "flat.npy", standardize=True)
    np.save(tmp_path / "huge.npy", [[1e300], [-1e300]])
    with pytest.raises(ValueError, match="too large to be standardised"):
        read_data(tmp_path / "huge.npy", standardize=True)


BAD = {
    "ragged.csv": (
        "1,2\n3,4\n5\n",
        "line 3: 2 columns were expected, as in the first line, 1 arrived; columns are separated "
        "by ','",
    ),
    "text.csv": ("x,y\n1,2\n3,oops\n", "line 3, column y: a number was expected, 'oops' arrived"),
    "missing.csv": ("1,2\n3,\n", "line 2, column x1: a number was expected, '' arrived"),
    "gap.csv": ("1,2\n,\n3,4\n", "line 2, column x0: a number was expected, '' arrived"),
    "first.csv": (
        "1.0,NA\n0,0\n1,1\n",
        "line 1, column x1: a number was expected, 'NA' arrived",
    ),  # not a header
    "semicolons.csv": ("1;2\n3;4\n5;6\n", "a number was expected, '3;4' arrived.*separated by ','"),
    "nameless.csv": (
        "x,,y\n0,1,2\n1,3,4\n",
        "column 1 has no name; say which columns are coordinates: --columns x,y",
    ),
    "nan.csv": ("1,2\n3,nan\n", "line 2, column x1: a number was expected, 'nan' arrived"),
    "inf.csv": ("x,y\n-inf,2\n", "line 2, column x: a number was expected, '-inf' arrived"),
    "grouped.csv": ("1,2\n1_000,3\n", "line 2, column x0: a number was expected, '1_000' arrived"),
    "digits.csv": ("1,2\n３,4\n", "line 2, column x0: a number was expected"),
    "commas.csv": (",\n1,2\n3,4\n", "column 1 has no name"),
    "holes.csv": (
        "NA,NA\n1,2\n3,4\n",
        "the first line has 'NA', and may be a header or a row: say which, by --header",
    ),
    "excel.csv": (
        "p0,#N/A\np1,1\np2,2\n",
        "the first line has '#N/A', and may be a header or a row",
    ),
    "quote.csv": ('x,y,name\n1,2,ok\n3,4,ok\n5,6,"a\n7,8,b\n', "cannot be read as text"),
    "hole.csv": (
        "x\n1\n\n2\n3\n",
        "line 3: 1 columns were expected, as in the first line, 0 arrived",
    ),  # a value is missing there
    "quoted.csv": ('x\n1\n""\n2\n', "line 3, column x: a number was expected, '' arrived"),
    "empty.csv": ("", "is empty"),
    "header.csv": ("x,y\n", "has a header and no rows"),
    "one.csv": ("1,2\n", "at least 2 points"),
    "latin.csv": (b"\xff\xfe\x00\x01", "cannot be read as text in UTF-8"),
    "fake.npy": (b"hello", "cannot be read as a NumPy file"),
    "fake.npz": (b"PK hello", "cannot be read as a NumPy file"),
    "data.txt": ("1,2\n", r"should end in .csv, .tsv, .npy or .npz"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_a_sentence(tmp_path, name):
    content, sentence = BAD[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=sentence):
        read_data(tmp_path / name)


def test_files_that_are_not_there_or_hold_something_else(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_data(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="not a folder"):
        read_data(tmp_path / "folder.csv")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=r"shape \(n, D\)"):
        read_data(tmp_path / "cube.npy")
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    with pytest.raises(TypeError, match="array of real numbers"):
        read_data(tmp_path / "words.npy")
    np.save(tmp_path / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    with pytest.raises(ValueError, match="NumPy file of plain numbers"):  # never unpickled
        read_data(tmp_path / "objects.npy")
    np.savez(tmp_path / "many.npz", a=ROWS, b=ROWS)
    with pytest.raises(ValueError, match=r"one named 'data'; it holds \['a', 'b'\]"):
        read_data(tmp_path / "many.npz")
