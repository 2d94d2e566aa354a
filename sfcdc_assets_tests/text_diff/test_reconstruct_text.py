"""Hand-written diffs: every form a diff may have, and every way it may be wrong."""

from __future__ import annotations

import hashlib
import pickle

import pytest

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.text_diff import TextDiffError, reconstruct_text


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def diff_to(new: str, *rows: str, separator: str = "\n", closing: str = "") -> str:
    return separator.join(["--- ", f"+++ {sha256(new)}", *rows]) + closing


# The sample of Salesforce's documentation, "Data Differences in Event Fields": text, diff and hash as captured there.
SAMPLE_PARAGRAPHS = (
    "Everyone is talking about “the cloud.” But what does it mean?",
    "Business applications are moving to the cloud. It’s not just a fad—the shift from traditional software models to "
    "the Internet has steadily gained momentum over the last 10 years.",
    "Cloud computing: a better way",
    "With cloud computing, you eliminate headaches because you’re not managing hardware and software—that’s the "
    "responsibility of an experienced vendor like Salesforce. The shared infrastructure means it works like a utility: "
    "you only pay for what you need, upgrades are automatic, and scaling up or down is easy.",
    "Cloud-based apps can be up and running in days or weeks, and they cost less. With a cloud app, you just open a "
    "browser, log in, customize the app, and start using it.",
    "Businesses are running all kinds of apps in the cloud, like customer relationship management (CRM), HR, "
    "accounting, and much more. Some of the world’s largest companies moved their applications to the cloud with "
    "Salesforce after rigorously testing the security and reliability of our infrastructure.",
    "As cloud computing grows in popularity, thousands of companies are simply rebranding their non-cloud products and "
    "services as “cloud computing.” Always dig deeper when evaluating cloud offerings.",
)
SAMPLE_SHA256 = "682b8747ccdb93b546e7bbe479b27d26ec7c38ccabb76cdd8308c6595492bffc"
SAMPLE_SECOND = SAMPLE_PARAGRAPHS[1].replace("applications", "apps")
SAMPLE_SEVENTH = (
    SAMPLE_PARAGRAPHS[6] + " And keep in mind that if you have to buy and manage hardware and software, what you’re "
    "looking at isn’t really cloud computing but a false cloud."
)
SAMPLE_DIFF = (
    f"--- \n+++ {SAMPLE_SHA256}\n@@ -2,1 +2,1 @@\n-{SAMPLE_PARAGRAPHS[1]}\n+{SAMPLE_SECOND}\n"
    f"@@ -7,1 +7,1 @@\n-{SAMPLE_PARAGRAPHS[6]}\n+{SAMPLE_SEVENTH}"
)


def test_the_sample_of_salesforces_documentation_is_proven_by_the_hash_printed_there() -> None:
    base = "\r\n".join(SAMPLE_PARAGRAPHS)
    new = reconstruct_text(base, SAMPLE_DIFF)
    assert sha256(new) == SAMPLE_SHA256
    assert new == "\r\n".join([SAMPLE_PARAGRAPHS[0], SAMPLE_SECOND, *SAMPLE_PARAGRAPHS[2:6], SAMPLE_SEVENTH])


def test_a_base_in_another_line_end_style_than_the_org_has_is_still_proven() -> None:
    assert sha256(reconstruct_text("\n".join(SAMPLE_PARAGRAPHS), SAMPLE_DIFF)) == SAMPLE_SHA256


TEN = "".join(f"line {n}\n" for n in range(1, 11))
TWO_BEFORE_SEVEN = TEN.replace("line 7\n", "new a\nnew b\nline 7\n")
TWO_AFTER_SEVEN = TEN.replace("line 7\n", "line 7\nnew a\nnew b\n")


@pytest.mark.parametrize("new", [TWO_BEFORE_SEVEN, TWO_AFTER_SEVEN])
@pytest.mark.parametrize("numbers", ["-7,0 +7,2", "-7,0 +8,2", "-7,0 +1,2"])
def test_an_insertion_numbered_seven_goes_before_or_after_line_seven_as_the_hash_says(new: str, numbers: str) -> None:
    assert reconstruct_text(TEN, diff_to(new, f"@@ {numbers} @@", "+new a", "+new b")) == new


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", ["\n", "\r\n"])
@pytest.mark.parametrize("closing", ["", "\n", "\r\n", "\n\n"])
def test_the_diffs_own_separators_do_not_matter_and_the_values_line_ends_are_kept(
    end: str, separator: str, closing: str
) -> None:
    base, new = TEN.replace("\n", end), TWO_BEFORE_SEVEN.replace("line 2\n", "second\n").replace("\n", end)
    rows = ["@@ -2,1 +2,1 @@", "-line 2", "+second", "@@ -7,0 +7,2 @@", "+new a", "+new b"]
    assert reconstruct_text(base, diff_to(new, *rows, separator=separator, closing=closing)) == new


def test_a_value_may_mix_line_ends_and_a_replaced_line_keeps_that_of_the_old_one() -> None:
    base = "a\r\nb\nc\rd\r\ne"
    new = "a\r\nB\nC\rd\r\ne"
    assert reconstruct_text(base, diff_to(new, "@@ -2,2 +2,2 @@", "-b", "-c", "+B", "+C")) == new


def test_new_lines_with_ends_of_their_own_are_found_by_search() -> None:
    base = "a\r\nb\nc\rd\r\ne"
    new = "a\r\nw\rx\ny\r\nz\rb\nc\rd\r\ne"
    assert reconstruct_text(base, diff_to(new, "@@ -2,0 +2,4 @@", "+w", "+x", "+y", "+z")) == new


def test_a_diff_that_shows_the_lines_own_ends_is_read_too() -> None:
    base, new = "a\r\nb\nc\rd", "a\r\nB\rX\r\nY\nZ\rU\rV\r\nW\nc\rd"
    rows = "@@ -2 +2,7 @@\n-b\n+B\r+X\r\n+Y\n+Z\r+U\r+V\r\n+W\n"
    assert reconstruct_text(base, f"--- \n+++ {sha256(new)}\n{rows}") == new


def test_a_carriage_return_inside_a_line_is_text_when_the_hunks_counts_say_so() -> None:
    base, new = "a\rb\nc\nd", "a\rB\nc\nd"
    assert reconstruct_text(base, diff_to(new, "@@ -1,1 +1,1 @@", "-a\rb", "+a\rB")) == new
    crlf_as_text = "a\r\nb\r\nc"
    new = "a\r\nB\r\rx\nc"
    assert reconstruct_text(crlf_as_text, diff_to(new, "@@ -2,1 +2,1 @@", "-b\r", "+B\r\rx")) == new


@pytest.mark.parametrize("odd", ["\u2028", "\u0085", "\v", "\f", "\x1c", "\u2029"])
def test_no_other_character_breaks_a_line(odd: str) -> None:
    base, new = f"a{odd}b\nc\nd{odd}", f"a{odd}b\nx{odd}y\nd{odd}"
    assert reconstruct_text(base, diff_to(new, "@@ -2,1 +2,1 @@", "-c", f"+x{odd}y")) == new


AWKWARD = ["", "+", "-", "@@", "@@ -1,1 +1,1 @@", "--- ", "+++ abc", "\\ No newline at end of file", " ", "é😀"]


@pytest.mark.parametrize("line", AWKWARD)
def test_lines_that_look_like_parts_of_a_diff_are_text(line: str) -> None:
    base, new = "\n".join(["a", line, "b", "c"]), "\n".join(["a", "x", "b", line, line, "c"])
    rows = ["@@ -2,1 +2,1 @@", f"-{line}", "+x", "@@ -4,0 +4,2 @@", f"+{line}", f"+{line}"]
    assert reconstruct_text(base, diff_to(new, *rows)) == new


def test_context_lines_are_allowed_and_empty_ones_may_have_lost_their_blank() -> None:
    base, new = "a\n\nb\n\nc", "a\n\nB\n\nc"
    for blank in (" ", ""):
        rows = ["@@ -1,5 +1,5 @@ heading", " a", blank, "-b", "+B", blank, " c"]
        assert reconstruct_text(base, diff_to(new, *rows)) == new
    trimmed_off = ["@@ -1,4 +1,4 @@", " a", "", "-b", "+B"]
    assert reconstruct_text(base, diff_to(new, *trimmed_off)) == new


def test_the_remark_about_a_missing_line_end_decides_the_first_guess_only() -> None:
    remark = "\\ No newline at end of file"
    assert reconstruct_text("a\nb", diff_to("a\nb\n", "@@ -2 +2 @@", "-b", remark, "+b")) == "a\nb\n"
    assert reconstruct_text("a\nb\n", diff_to("a\nb", "@@ -2 +2 @@", "-b", "+b", remark)) == "a\nb"
    assert reconstruct_text("a\nb", diff_to("a\nc", "@@ -2 +2 @@", "-b", remark, "+c", remark)) == "a\nc"


@pytest.mark.parametrize(
    ("base", "new", "rows"),
    [
        ("", "a\nb", ["@@ -0,0 +1,2 @@", "+a", "+b"]),
        ("", "a\nb", ["@@ -1,0 +1,2 @@", "+a", "+b"]),
        ("", "a\r\nb", ["@@ -1,1 +1,2 @@", "-", "+a", "+b"]),
        ("a\nb", "", ["@@ -1,2 +0,0 @@", "-a", "-b"]),
        ("a\nb", "", ["@@ -1,2 +1,0 @@", "-a", "-b"]),
        ("a\nb\nc", "a\nc", ["@@ -2,1 +1,0 @@", "-b"]),
        ("a\nb\nc", "a\nc", ["@@ -2,1 +2,0 @@", "-b"]),
        ("a\nb\nc", "a\nb", ["@@ -3,1 +3,0 @@", "-c"]),
        ("a\nb", "a\nb\nc", ["@@ -3,0 +3,1 @@", "+c"]),
        ("a\nb", "a\nb\nc", ["@@ -2,0 +3,1 @@", "+c"]),
        ("a\nb\n", "a\nb\nc\n", ["@@ -3,0 +3 @@", "+c"]),
        ("a\nb\n", "a\nb\nc", ["@@ -2,0 +3 @@", "+c"]),
        ("a\nb\n", "a\nb\n\nc", ["@@ -4,0 +4,1 @@", "+c"]),
        ("a\nb", "x\na\nb", ["@@ -0,0 +1 @@", "+x"]),
        ("a\nb\nc\nd", "a\nb\nX\nd", ["@@ -0,1 +3,1 @@", "-c", "+X"]),
        ("only", "other", ["@@ -1 +1 @@", "-only", "+other"]),
        ("a\nb", "A\nb", ["@@ -0,0 +0,0 @@", "@@ -1,1 +1,1 @@", "-a", "+A"]),
        ("a\nb", "a\r\nb", []),
    ],
)
def test_the_numbering_at_the_edges_of_a_text_is_understood_in_every_convention(
    base: str, new: str, rows: list[str]
) -> None:
    assert reconstruct_text(base, diff_to(new, *rows)) == new


def test_blanks_that_salesforce_trims_off_the_new_value_are_trimmed() -> None:
    base, new = "a\nb\nc", "A\nb\nc d"
    rows = ["@@ -1,1 +1,1 @@", "-a", "+  A", "@@ -3,1 +3,2 @@", "-c", "+c d \t", "+"]
    assert reconstruct_text(base, diff_to(new, *rows)) == new


def test_an_unchanged_line_whose_end_changed_unseen_is_found_by_search() -> None:
    base, new = "a\r\nb\nc\rd\ne", "A\r\nb\nc\r\nd\ne"
    assert reconstruct_text(base, diff_to(new, "@@ -1,1 +1,1 @@", "-a", "+A")) == new


def test_the_hash_may_be_written_in_capitals() -> None:
    diff = f"--- \n+++ {sha256('b').upper()}\n@@ -1,1 +1,1 @@\n-a\n+b"
    assert reconstruct_text("a", diff) == "b"


def test_a_chain_of_diffs_leads_from_each_value_to_the_next() -> None:
    values = [TEN, TWO_BEFORE_SEVEN, TWO_BEFORE_SEVEN.replace("line 1\n", "")]
    first = diff_to(values[1], "@@ -7,0 +7,2 @@", "+new a", "+new b")
    second = diff_to(values[2], "@@ -1,1 +1,0 @@", "-line 1")
    assert reconstruct_text(reconstruct_text(TEN, first), second) == values[2]
    with pytest.raises(TextDiffError):
        reconstruct_text(TEN.replace("line 9", "line nine"), first)


HASH = sha256("a\nB\nc")


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        ("", "does not begin"),
        ("just a text", "does not begin"),
        ("a\nB\nc", "does not begin"),
        ("--- ", "does not begin"),
        (f"+++ {HASH}\n--- ", "does not begin"),
        (f"--- \n+++ {HASH[:-1]}\n@@ -2 +2 @@\n-b\n+B", r"64 hex digits \(63 characters\)"),
        (f"--- \n+++ {HASH}0\n@@ -2 +2 @@\n-b\n+B", r"64 hex digits \(65 characters\)"),
        (f"--- \n+++ {HASH[:-1]}g\n@@ -2 +2 @@\n-b\n+B", "64 hex digits"),
        ("--- \n+++ \n@@ -2 +2 @@\n-b\n+B", r"\(0 characters\)"),
        (f"--- \n+++ {HASH}\nnot a hunk", "line 3 of the diff is not the header of a hunk"),
        (f"--- \n+++ {HASH}\n@@ -2,1 2,1 @@\n-b\n+B", "line 3 of the diff is not the header"),
        (f"--- \n+++ {HASH}\n@@ -99999999999 +1 @@\n-b\n+B", "line 3 of the diff is not the header"),
        (f"--- \n+++ {HASH}\n@@ -2,1 +2,2 @@\n-b\n+B", "ends before the lines its header counts"),
        (f"--- \n+++ {HASH}\n@@ -2,900000000 +2,900000000 @@\n-b\n+B", "ends before"),
        (f"--- \n+++ {HASH}\n@@ -2,1 +2,1 @@\n-b\n+B\n+C", "line 6 of the diff is not the header"),
        (f"--- \n+++ {HASH}\n@@ -2,1 +2,1 @@\n-b\n-c\n+B", "one more than the hunk's header counts"),
        (f"--- \n+++ {HASH}\n@@ -2,1 +2,1 @@\n-b\n*B", "begins with none"),
        (f"--- \n+++ {HASH}\n@@ -2,1 +2,1 @@\n\\ No newline\n-b\n+B", "before any line"),
        (f"--- \n+++ {HASH}\n@@ -4,1 +4,1 @@\n-b\n+B", "reaches base line 4, the base has 3"),
        (f"--- \n+++ {HASH}\n@@ -900,0 +900,1 @@\n+B", "reaches base line 899, the base has 3"),
        (f"--- \n+++ {HASH}\n@@ -3,1 +3,1 @@\n-c\n+c\n@@ -2,1 +2,1 @@\n-b\n+B", "before the hunk above it ends"),
        (f"--- \n+++ {HASH}\n@@ -2,1 +2,1 @@\n-x\n+B", "base line 2 is not the line the diff has there"),
        (f"--- \n+++ {HASH}\n@@ -1,2 +1,2 @@\n x\n-b\n+B", "base line 1 is not the line the diff has there"),
        (f"--- \n+++ {'0' * 64}\n@@ -2,1 +2,1 @@\n-b\n+B", f"expected SHA-256 {'0' * 64}, found {HASH}"),
        (f"--- \n+++ {HASH}\n@@ -2,1 +2,1 @@\n-b\n+\ud800", "half a surrogate pair"),
    ],
)
def test_a_diff_that_proves_nothing_is_an_error_that_says_why(diff: str, problem: str) -> None:
    with pytest.raises(TextDiffError, match=problem) as caught:
        reconstruct_text("a\nb\nc", diff)
    assert isinstance(caught.value, SfcdcError)
    assert "Read the field back" in str(caught.value)


def test_the_error_carries_its_facts_and_survives_pickling() -> None:
    with pytest.raises(TextDiffError) as caught:
        reconstruct_text("a\nb\nc", f"--- \n+++ {HASH}\n@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-secret\n+C")
    error = caught.value
    assert (error.hunk, error.line, error.expected, error.found) == (2, 3, None, None)
    assert "secret" not in str(error)
    with pytest.raises(TextDiffError) as caught:
        reconstruct_text("a\nb\nc", f"--- \n+++ {'0' * 64}\n@@ -2 +2 @@\n-b\n+B")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.expected, copy.found, str(copy)) == ("0" * 64, HASH, str(caught.value))
