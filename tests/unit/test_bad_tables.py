"""Bad .csv and .parquet files: each gives one error that names the file, and writes nothing."""

import gzip
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import domaincal as dc

DATA, _ = dc.make_multi_domain(3, 20, 3, 2, random_state=0)
Z, Y = DATA.logits, DATA.labels


def _frame(**changes):
    columns = {f"logit_{k}": Z[:, k] for k in range(3)} | {"label": Y, "domain": DATA.domains}
    return pd.DataFrame({k: v for k, v in {**columns, **changes}.items() if v is not None})


CSV = {
    "empty": ("", "is empty; the first line must be a header"),
    "header only": ("logit_0,logit_1\n", "it has a header, but no rows"),
    "a gap": (_frame(logit_1=None).to_csv(index=False), "'logit_1' is missing"),
    "twice": ("logit_0,logit_0,logit_1\n1,2,3\n", "has the column 'logit_0' 2 times"),
    "padded twice": ("logit_0,logit_00,logit_1\n1,2,3\n", "'logit_1' is missing or occurs twice"),
    "a word": ("logit_0,logit_1\n1,2\n3,many\n", "'logit_1' contains 'many' in row 1"),
    "an empty cell": ("logit_0,logit_1\n1,2\n3,\n", "'logit_1' .logits. contains NaN in row 1"),
    "NA": ("logit_0,logit_1\n1,2\nNA,3\n", "column 'logit_0' .logits. contains NaN in row 1"),
    "no feature": (
        "logit_0,logit_1,feature_x\n1,2,3\n3,4,\n",
        "column 'feature_x' .features. contains NaN in row 1",
    ),
    "no probability": (
        "prob_a,prob_b\n0.5,0.5\n0.5,NA\n", "'prob_b' .probabilities. contains NaN in row 1; fill",
    ),
    "a total": (
        "prob_a,prob_b,prob_total\n0.5,0.5,1\n",
        r"sum 2; .*with logits=... \(--logits\); the columns are 'prob_a', 'prob_b', 'prob_total'",
    ),
    "texts for a score": (
        "score,label\n1,yes\n2,no\n", "such as no,yes: the second is the class that the score",
    ),
    "texts and numbers for a score": ("score,label\n1,1\n2,x\n", "'x' in row 1, which is not a c"),
    "gzip": (gzip.compress(b"logit_0,logit_1\n1,2\n"), "is compressed by gzip; name it .csv.gz"),
    "parquet": (b"PAR1\0\0", "is a parquet file; name it .parquet"),
    "UTF-16": ("logit_0,logit_1\n1,2\n".encode("utf-16"), "is text in UTF-16; save it in UTF-8"),
    "a short row": ("logit_0,logit_1,domain\n1,2,a\n3\n", "'domain' is empty in row 1"),
    "a long row": ("logit_0,logit_1\n1,2\n3,4,5\n", "cannot be read|more cells"),
    "all rows long": ("logit_0,logit_1\n1,2,3\n3,4,5\n", "more cells than its header"),
    "no label": ("logit_0,logit_1,label\n1,2,0\n3,4,\n", "'label' is empty in row 1"),
    "a fraction": ("logit_0,logit_1,label\n1,2,0\n3,4,0.5\n", "contains '0.5' in row 1, which is"),
    "other words": ("logit_a,logit_b,label\n1,2,a\n3,4,c\n", "'c' in row 1, which is not a class"),
    "not text": (b"logit_0,logit_1\n\xff\xfe,1\n", "cannot be read"),
    "bars": ("logit_0|logit_1\n1|2\n", "is separated by '.'; save it with commas"),
    "decimal commas": (
        "logit_0;logit_1\n1;2\n3,5;-1,2e3\n",
        "'3,5' in row 1 .* a decimal comma; save the table with decimal points, such as 3.5",
    ),
    "numbers and a name": ("logit_0,logit_1,logit_max\n1,2,2\n", "'logit_max' is not; number all"),
    "names and numbers": (
        "logit_1,logit_bg,label\n1,2,1\n3,4,0\n", "mixes class names .'1'. and numbers .'0' in row",
    ),
    "a long name": (f"logit_0,logit_1,domain\n1,2,{'x' * 5000}\n", "5000 characters; use names of"),
    "a long class": (f"logit_{'x' * 1001},logit_b\n1,2\n", "class_names contains .* at most 1000"),
    "a zero character": ("logit_0,logit_b\0,logit_c\n1,2,3\n", "has zero characters; save it as"),
    "half a character": (b"logit_0,logit_1,domain\n1,2,\xed\xa0\x80\n", "cannot be read"),
    "many wrong cells": ("logit_0,logit_1\n1,2\nx,many\n", "'x' in row 1 .other columns too"),
    "a wrong cell far away": (
        "logit_0,logit_1\n" + "1,2\n" * 600_000 + "1,many\n", "'many' in row 600000;",
    ),
    "a long wrong cell": (f"logit_0,logit_1\n1,{'x' * 5000}\n", f"contains '{'x' * 40}' in row 0"),
    "a trailing comma": ("logit_0,logit_1\n1,2,\n3,4,\n", "more cells than its header"),
    "a shifted row": ("logit_0,logit_1\n7,1,2\n3,4\n", "more cells than its header"),
    "two more cells": ("logit_0,logit_1\n\n \n1,2,3,4\n", "more cells than its header, which"),
    "no scores": ("label,domain\n1,a\n", "it has no logits .found: 'label', 'domain'"),
}  # fmt: skip


_PACKED = gzip.compress(b"logit_0,logit_1\n" + b"1,2\n" * 500, mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_PACKED[:-12], "is cut off; copy or compress it again"),
        (_PACKED[:-6] + b"000000", "is damaged .*; copy or compress it again"),
        (_PACKED[:12] + b"\xff" * 9 + _PACKED[21:], "is damaged .*; copy or compress it again"),
        (b"logit_0,logit_1\n1,2\n", "is not compressed by gzip; if it is a plain csv, name it"),
        (gzip.compress(_PACKED), "is compressed by gzip; unpack it once with zcat"),
    ],
    ids=["cut off", "wrong checksum", "wrong block", "plain", "twice"],
)
def test_a_wrong_gzip_file_says_what_it_is(tmp_path, content, message):
    (tmp_path / "scores.csv.gz").write_bytes(content)
    with pytest.raises(dc.errors.FileFormatError, match=rf"scores\.csv\.gz {message}"):
        dc.read(tmp_path / "scores.csv.gz")


@pytest.mark.parametrize(("content", "message"), CSV.values(), ids=CSV)
def test_a_bad_csv_is_refused(tmp_path, content, message):
    path = tmp_path / "scores.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    if "domain' is empty in row 1" in message:  # nor has this row a logit: another order of checks
        assert "'logit_1' (logits) contains NaN in row 1" in _message_in_blocks(path)
    else:
        assert _message_in_blocks(path) == str(caught.value)


def _message_in_blocks(path):
    """The error of open_rows, which reads a table in chunks."""
    with pytest.raises(dc.errors.FileFormatError) as caught, dc.io.open_rows(path):
        pass
    return str(caught.value)


def test_reading_a_csv_changes_no_warning_filter(tmp_path, monkeypatch):
    """Filters belong to all threads: after a reader in each, one of another thread could stay."""
    import warnings

    path = tmp_path / "scores.csv"
    path.write_text("logit_0,logit_1\n1,2\n")
    before = list(warnings.filters)
    seen = []

    def read_csv(*args, read=pd.read_csv, **options):
        seen.append(list(warnings.filters))
        return read(*args, **options)

    monkeypatch.setattr(pd, "read_csv", read_csv)
    dc.read(path)
    path.write_text("logit_0,logit_1\n1,2,3\n")
    with pytest.raises(dc.errors.FileFormatError, match="more cells"):
        dc.read(path)
    assert seen == [before] * len(seen)
    assert seen


def test_a_csv_of_a_spreadsheet_is_read(tmp_path):
    """With a byte order mark, Windows line ends, columns in any order, and a domain named NA."""
    path = tmp_path / "scores.csv"
    text = "note,logit_1,domain, logit_0,label\r\nhi,2,NA,1,1.0\r\n,4,null,3,0\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    data = dc.read(path)
    assert data.logits.tolist() == [[1, 2], [3, 4]]
    assert data.domains.tolist() == ["NA", "null"]
    assert data.labels.tolist() == [1, 0]
    assert dc.inspect(path).ignored == ("note",)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["-3", "0"], [-3, 0]),
        (["007", "8"], ["007", "8"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["1", "b"], ["1", "b"]),
        (["True", "False"], ["True", "False"]),
        ([str(10**18), "1"], [str(10**18), "1"]),
        ([str(10**17), "1"], [10**17, 1]),
        ([str(10**30), "1"], [str(10**30), "1"]),
    ],
)
def test_domains_of_a_csv_are_integers_or_texts(tmp_path, cells, expected):
    path = tmp_path / "scores.csv"
    path.write_text("logit_0,logit_1,domain\n" + "".join(f"1,2,{cell}\n" for cell in cells))
    assert dc.read(path).domains.tolist() == expected


def test_a_class_may_have_a_number_for_a_name(tmp_path):
    data = dc.CalibrationData(np.eye(3), labels=[1, 1, 1], class_names=("ant", "2", "bee"))
    dc.write(data, tmp_path / "scores.csv")
    assert dc.read(tmp_path / "scores.csv").labels.tolist() == [1, 1, 1]


@pytest.mark.parametrize("key", ["class_names", "feature_names"])
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("7", "8", "9"), "are numbers .7, 8, 9."),
        (("1", "0", "2"), "are numbers"),
        (("0", "1", "other"), "are numbers"),
        (("a", "b ", "c"), "contains 'b '"),
        (("a", "b\r", "c"), r"contains 'b\\r'"),
    ],
)
def test_column_names_that_a_csv_cannot_hold_are_refused(tmp_path, key, names, message):
    data = dc.CalibrationData(np.eye(3), features=np.eye(3), **{key: names})
    with pytest.raises(dc.errors.InputError, match=f"{key} {message}"):
        dc.write(data, tmp_path / "scores.csv")
    assert not list(tmp_path.iterdir())
    for name in ("scores.npz", "scores", "scores.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        dc.write(data, tmp_path / name)
        assert getattr(dc.read(tmp_path / name), key) == names


def test_an_empty_column_of_labels_counts_as_no_labels(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("logit_0,logit_1,label\n1,2,\n3,4,\n")
    assert dc.read(path).labels is None


@pytest.mark.parametrize("name", ["", "a\rb", "a\r\nb"])
def test_domains_that_a_csv_cannot_hold_are_refused(tmp_path, name):
    data = dc.CalibrationData(np.eye(2), domains=[name, "x"])
    with pytest.raises(
        dc.errors.InputError, match=r"'domain' contains .* which a .csv file cannot hold"
    ):
        dc.write(data, tmp_path / "scores.csv")
    assert not list(tmp_path.iterdir())
    dc.write(data, tmp_path / "scores.npz")
    assert set(dc.read(tmp_path / "scores.npz").domains) == {name, "x"}


class TestParquet:
    @pytest.fixture(autouse=True)
    def _pyarrow(self):
        self.pa = pytest.importorskip("pyarrow")
        self.parquet = pytest.importorskip("pyarrow.parquet")

    def _refused(self, tmp_path, table, message, *, in_blocks=True):
        path = tmp_path / "scores.parquet"
        if not isinstance(table, bytes):
            self.parquet.write_table(table, path)
        else:
            path.write_bytes(table)
        with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
            dc.read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        if in_blocks:
            assert re.search(message, _message_in_blocks(path))

    def test_damaged_files_are_refused(self, tmp_path):
        self._refused(tmp_path, b"", "cannot be read")
        self._refused(tmp_path, b"PAR1 hello PAR1", "cannot be read")
        dc.write(DATA, tmp_path / "good.parquet")
        self._refused(tmp_path, (tmp_path / "good.parquet").read_bytes()[:-100], "cannot be read")

    def test_bad_columns_are_refused(self, tmp_path):
        table = self.pa.Table.from_pandas
        self._refused(tmp_path, table(_frame(logit_0=None)), "'logit_0' is missing")
        self._refused(tmp_path, table(_frame(logit_0=["x"] * 60)), "'logit_0' must hold numbers")
        nulls = pd.Series([1.5] * 59 + [None])
        self._refused(tmp_path, self.pa.table({"logit_0": nulls, "logit_1": [1.0] * 60}), "row 59")
        names = [None, *DATA.domains[1:]]
        self._refused(tmp_path, table(_frame(domain=names)), "'domain' has no value in row 0")
        self._refused(tmp_path, table(_frame(label=["cat"] * 60)), "'cat' in row 0")
        twice = self.pa.table([[1.0], [2.0], [3.0]], names=["logit_0", "logit_1", "logit_1"])
        self._refused(tmp_path, twice, "has the column 'logit_1' 2 times")
        lists = self.pa.table({"logit_0": [[1.0]], "logit_1": [[2.0]]})
        self._refused(tmp_path, lists, "must hold numbers")

    def test_an_empty_column_of_labels_counts_as_no_labels(self, tmp_path):
        frame = _frame(label=pd.Series([None] * 60, dtype=object))
        self.parquet.write_table(self.pa.Table.from_pandas(frame), tmp_path / "scores.parquet")
        data = dc.read(tmp_path / "scores.parquet")
        assert data.labels is None
        np.testing.assert_array_equal(data.domains, DATA.domains)

    def test_a_decompression_bomb_is_refused(self, tmp_path):
        zeros = self.pa.array(np.zeros(40_000_000, "i1")).dictionary_encode()
        table = self.pa.table({"logit_0": zeros, "logit_1": zeros})
        self._refused(
            tmp_path,
            table,
            "more than 268.4 MB; if you trust the file, allow more",
            in_blocks=False,
        )

    def test_a_long_name_that_occurs_often_takes_memory_once(self, tmp_path):
        """1,000 names of a million characters would take 1 GB, from a file of 1 MB."""
        names = np.array(["x" * 1_000_000] * 1000, object)
        table = self.pa.table({"logit_0": np.zeros(1000), "logit_1": np.ones(1000)})
        names = self.pa.array(names[:1]).dictionary_encode().take([0] * 1000)
        tracemalloc.start()
        self._refused(tmp_path, table.append_column("domain", names), "at most 1000")
        assert (tmp_path / "scores.parquet").stat().st_size < 3_000_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000_000

    @pytest.mark.parametrize(
        "text",
        [
            "{", "[]", '{"class_names": "abc"}', '{"class_names": [1, 2, 3]}', '{"provenance": 3}',
            '{"class_names": ["a", "a", "a"]}', '{"provenance": ' + "[" * 100_000, '"\xff"',
            '{"class_names": ["\\ud800", "b", "c"]}', '{"provenance": {"a": ' + "1" * 5000 + "}}",
        ],
    )  # fmt: skip
    def test_damaged_metadata_are_refused(self, tmp_path, text):
        table = self.pa.Table.from_pandas(_frame())
        table = table.replace_schema_metadata({b"domaincal": text.encode("latin-1")})
        self._refused(tmp_path, table, "damaged metadata|not among the names|not different")

    @pytest.mark.parametrize("column", ["domain", "label", "group"])
    def test_values_of_any_size_are_refused(self, tmp_path, column):
        scores = {"logit_0": [1.0, 2.0], "logit_1": [1.0, 2.0]}
        for values in ([[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"b"]):
            table = self.pa.table({**scores, column: values})
            self._refused(tmp_path, table, f"'{column}' must hold numbers or texts, not ")
        nested = {"logit_a": [1.0, 2.0], "logit_b.c": [1.0, 2.0], "logit_b": [{"c": 1}, {"c": 2}]}
        self._refused(tmp_path, self.pa.table(nested), "'logit_b' must hold numbers, not struct")

    def test_texts_that_are_not_utf_8_are_refused(self, tmp_path):
        texts = self.pa.array([b"\xff\xfe", b"b"]).cast(self.pa.string(), safe=False)
        table = {"logit_0": [1.0, 2.0], "logit_1": [1.0, 2.0]}
        self._refused(tmp_path, self.pa.table({**table, "domain": texts}), "cannot be read")

    def test_a_class_may_have_an_empty_name(self, tmp_path):
        labels = [2, 0, 1, 2]
        data = dc.CalibrationData(np.eye(4)[:, :3], labels=labels, class_names=("b", "", "a"))
        dc.write(data, tmp_path / "scores.parquet")
        again = dc.read(tmp_path / "scores.parquet")
        assert again.labels.tolist() == labels
        assert again.class_names == data.class_names

    def test_texts_of_several_row_groups_are_shared(self, tmp_path):
        names = [f"site {k % 5}" for k in range(60)]
        table = self.pa.Table.from_pandas(_frame(domain=names, group=DATA.domains))
        for options in ({}, {"use_dictionary": False}, {"compression": "zstd"}):
            path = tmp_path / "scores.parquet"
            self.parquet.write_table(table, path, row_group_size=7, **options)
            found = dc.read(path)
            assert found.domains.tolist() == names
            assert len({id(name) for name in found.domains.tolist()}) == 5
            np.testing.assert_array_equal(found.logits, Z)

    def test_a_changed_page_is_found_on_demand(self, tmp_path):
        path = tmp_path / "scores.parquet"
        dc.write(DATA, path)
        content = path.read_bytes()
        place = content.index(np.ascontiguousarray(Z[:, 0]).tobytes())
        path.write_bytes(content[:place] + b"\0\0\0\0" + content[place + 4 :])
        dc.read(path)
        with pytest.raises(dc.errors.FileFormatError, match="cannot be read"):
            dc.read(path, verify=True)

    def test_a_row_group_without_rows_is_read(self, tmp_path):
        path = tmp_path / "scores.parquet"
        dc.write(DATA, path)
        table = self.parquet.read_table(path)
        with self.parquet.ParquetWriter(path, table.schema) as writer:
            for part in (table, table.slice(0, 0), table):
                writer.write_table(part)
        assert len(dc.read(path)) == 2 * len(DATA)

    def test_a_changed_name_is_found_on_demand(self, tmp_path):
        path = tmp_path / "scores.parquet"
        dc.write(dc.CalibrationData(Z, domains=DATA.domains, provenance={"site": "a"}), path)
        table = self.parquet.read_table(path)
        columns = [name.replace("domain", "domaim") for name in table.column_names]
        renamed = table.rename_columns(columns).replace_schema_metadata(table.schema.metadata)
        self.parquet.write_table(renamed, path, write_page_checksum=True)
        assert dc.read(path).domains is None
        with pytest.raises(dc.errors.FileFormatError, match=r"names or columns .* have changed"):
            dc.read(path, verify=True)


def test_a_long_cell_in_a_column_that_is_ignored_is_read(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text('logit_0,logit_1,note\n1,2,"' + "x" * 200_000 + '"\n2,1,b\n')
    assert len(dc.read(path)) == 2


def test_numbered_columns_are_read_in_the_order_of_their_numbers(tmp_path):
    z = np.arange(24.0).reshape(2, 12)
    frame = pd.DataFrame(z, columns=[f"logit_{k}" for k in range(12)])
    frame[sorted(frame)].assign(prob_0=1.0, prob_1=0.0).to_csv(tmp_path / "s.csv", index=False)
    np.testing.assert_array_equal(dc.read(tmp_path / "s.csv").logits, z)
    assert dc.inspect(tmp_path / "s.csv").ignored == ("prob_0", "prob_1")


def test_sorted_columns_of_a_parquet_file_keep_their_classes(tmp_path):
    pa = pytest.importorskip("pyarrow.parquet")
    data = dc.CalibrationData(Z, labels=Y, class_names=("cat", "ant", "bee"))
    dc.write(data, tmp_path / "a.parquet")
    table = pa.read_table(tmp_path / "a.parquet")
    pa.write_table(table.select(sorted(table.column_names)), tmp_path / "b.parquet")
    again = dc.read(tmp_path / "b.parquet")
    np.testing.assert_array_equal(again.logits, Z)
    np.testing.assert_array_equal(again.labels, Y)
    pa.write_table(table.drop_columns(["logit_ant"]), tmp_path / "c.parquet")
    with pytest.raises(dc.errors.FileFormatError, match="'logit_ant' is missing"):
        dc.read(tmp_path / "c.parquet")
