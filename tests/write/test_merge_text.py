"""The parts of a MERGE INTO keep the words of the user."""

from __future__ import annotations

import pytest

from lakeconf.errors import UnsupportedError
from lakeconf.write.merge_text import Clause, split_merge

HEAD = "MERGE INTO t USING s ON t.id = s.id "


def only_clause(clause: str) -> Clause:
    (found,) = split_merge(HEAD + clause).clauses
    return found


def test_parts() -> None:
    merge = split_merge(
        """/* first */ WITH c AS (SELECT 'é' AS "using" FROM u JOIN v USING (id))
        MERGE INTO raw."my t" AS t -- INTO x
        USING c AS s ON CASE WHEN t.a THEN s.b ELSE $$WHEN MATCHED$$ END = E'\\''
        WHEN NOT MATCHED BY SOURCE AND CASE WHEN t.a THEN true END THEN DELETE WHEN MATCHED THEN DO NOTHING;"""
    )
    assert merge.with_.strip() == """WITH c AS (SELECT 'é' AS "using" FROM u JOIN v USING (id))"""
    assert (merge.target.split("--")[0].strip(), merge.source.strip()) == ('raw."my t" AS t', "c AS s")
    assert merge.join.strip() == "ON CASE WHEN t.a THEN s.b ELSE $$WHEN MATCHED$$ END = E'\\''"
    first, second = merge.clauses
    assert (first.side, first.kind, (first.condition or "").strip()) == (
        "source",
        "delete",
        "CASE WHEN t.a THEN true END",
    )
    assert second == Clause("matched", None, "nothing")


def test_comment_at_the_end_of_a_part_ends_with_the_line() -> None:
    assert only_clause("WHEN MATCHED THEN UPDATE SET a = 1 -- one").values == ("1 -- one\n",)


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("WHEN MATCHED THEN UPDATE", Clause("matched", None, "update")),
        ("WHEN MATCHED THEN UPDATE SET *", Clause("matched", None, "update")),
        (
            'WHEN MATCHED THEN UPDATE SET A=1,("b""c",d)=(f(2,3),4)',
            Clause("matched", None, "update", ("a", 'b"c', "d"), ("1\n", "f(2,3)\n", "4\n")),
        ),
        ("WHEN NOT MATCHED THEN INSERT", Clause("target", None, "insert")),
        ("WHEN NOT MATCHED BY TARGET THEN INSERT BY NAME *", Clause("target", None, "insert", by_name=True)),
        ("WHEN NOT MATCHED THEN INSERT BY POSITION", Clause("target", None, "insert")),
        ("WHEN NOT MATCHED THEN INSERT DEFAULT VALUES", Clause("target", None, "insert", defaults=True)),
        (
            "WHEN NOT MATCHED THEN INSERT VALUES([1,2],{'a':1,'b':2})",
            Clause("target", None, "insert", None, ("[1,2]\n", "{'a':1,'b':2}\n")),
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (a,b) VALUES (1,2)",
            Clause("target", None, "insert", ("a", "b"), ("1\n", "2\n")),
        ),
    ],
)
def test_clauses(clause: str, expected: Clause) -> None:
    assert only_clause(clause) == expected


@pytest.mark.parametrize(
    "clause",
    [
        "WHEN MATCHED THEN ERROR",
        "WHEN MATCHED THEN UPDATE SET a.b = 1",
        "WHEN MATCHED THEN UPDATE SET (a, b) = (SELECT 1, 2)",
        "WHEN MATCHED THEN INSERT",
        "WHEN NOT MATCHED THEN UPDATE",
        "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
        "",
    ],
)
def test_other_clauses_are_refused(clause: str) -> None:
    with pytest.raises(UnsupportedError):
        split_merge(HEAD + clause)


def test_names_with_escaped_letters_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"not recognized|has no"):
        split_merge('MERGE INTO t USING U&"s" ON t.id = s.id WHEN MATCHED THEN DELETE')
