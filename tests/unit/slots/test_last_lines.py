"""The last lines of a log: bounded, and without secrets."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest

from sparkstate.slots import last_lines
from sparkstate.slots.last_lines import Hiding, LastLines, hearing

KEY = "wJalrXUtnFEMI/K7MDENG"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"boto says {KEY} and goes on", "boto says *** and goes on"),
        ("password=hunter22 rest", "password=*** rest"),
        (
            'sasl.jaas.config = X required username="u" password="p w";',
            'sasl.jaas.config = X required username="u" password=***;',
        ),
        ("{'aws_secret_access_key': 'abc', 'region': 'x'}", "{'aws_secret_access_key': ***, 'region': 'x'}"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer ***"),
        ("jdbc at postgres://me:pw@host/db", "jdbc at postgres://***@host/db"),
        ("epoch 4 has 12 rows", "epoch 4 has 12 rows"),
        ("\x1b[31mred\x1b[0m\x00", "red"),
    ],
    ids=["known", "word", "jaas", "dict", "bearer", "url", "plain", "control"],
)
def test_secrets_are_replaced_and_the_rest_stays(line: str, shown: str) -> None:
    hiding = Hiding.of_process({"AWS_SECRET_ACCESS_KEY": KEY, "HOME": "rows!!", "MY_TOKEN": "4"})
    assert hiding.lines([line]) == (shown,)


def test_a_secret_within_another_one_is_replaced_whole() -> None:
    hiding = Hiding(["abcdef", "abcdef-long", None, ""])
    assert hiding.hide("abcdef-long abcdef") == "*** ***"


def test_a_secret_of_several_lines_is_found_in_each() -> None:
    hiding = Hiding.of_process({"TLS_PRIVATE_KEY": "-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----\n"})
    assert hiding.lines(["key:", "MIIEvQIBADANBg", "end"]) == ("key:", "***", "end")


@pytest.mark.parametrize("shift", [0, 5, 20])
def test_no_half_of_a_secret_is_left_where_a_line_is_cut(shift: int) -> None:
    secret = "ABCDEFGHIJ" * 60
    line = f"{secret} " * 6 + "x" * (2 * last_lines.LINE_CHARACTERS - 6 * 601 - 300 - shift) + secret
    (shown,) = Hiding([secret]).lines([line])
    assert "ABC" not in shown
    assert shown.startswith("*** *** ")


def test_lines_are_bounded_in_number_and_length() -> None:
    lines = Hiding(()).lines(f"{number} " + "x" * 5000 for number in range(1000))
    assert len(lines) == last_lines.LINES
    assert lines[-1].startswith("999 ")
    assert {len(line) for line in lines} == {last_lines.LINE_CHARACTERS}


def test_a_process_hears_what_it_prints_and_logs_and_the_stream_gets_it_too() -> None:
    heard, out, err = LastLines(), io.StringIO(), io.StringIO()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        with hearing(heard):
            print("one", flush=True)
            sys.stdout.write("two in ")
            sys.stdout.write("pieces\nthree")
            logging.getLogger("sparkstate.of.this.test").warning("four")
            print("five", file=sys.stderr)
        assert sys.stdout is out
    finally:
        sys.stdout, sys.stderr = before
    assert out.getvalue() == "one\ntwo in pieces\nthree"
    assert err.getvalue().endswith("five\n")
    assert [line for line in heard.raw() if line != "four"] == ["one", "two in pieces", "five"]


def test_a_line_without_an_end_takes_no_memory() -> None:
    heard = LastLines()
    stream = last_lines.HeardStream(io.StringIO(), heard)
    for _ in range(100):
        stream.write("x" * 100_000)
    stream.write("\nnext\n")
    first, second = heard.raw()
    assert len(first) <= 2 * last_lines.LINE_CHARACTERS
    assert second == "next"


def test_the_end_of_a_file_is_read_and_of_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "slot-0-1.log"
    assert last_lines.of_file(path) == []
    path.with_name("slot-0-1.log.1").write_text("old one\nold two\n")
    path.write_bytes(b"new \xff one\n")
    assert last_lines.of_file(path) == ["old one", "old two", "new \ufffd one"]
    path.write_text("".join(f"line {number} {'y' * 600}\n" for number in range(5000)))
    lines = last_lines.of_file(path)
    assert len(lines) == last_lines.LINES
    assert lines[-1].startswith("line 4999 ")
