"""The format of word boxes, and the way from the stored image back to the page."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from clerk.documents import word_boxes
from clerk.documents.word_boxes import SCALE, Word, WordBoxes, WordBoxesInvalid
from clerk.ocr import image as page_image

coordinates = st.integers(0, SCALE)
texts = st.text("aZ9.,-ñß漢", min_size=1, max_size=5)


@st.composite
def words(draw: st.DrawFn) -> Word:
    left, right = sorted((draw(coordinates), draw(coordinates)))
    top, bottom = sorted((draw(coordinates), draw(coordinates)))
    return Word(draw(texts), left, top, right, bottom)


@given(st.lists(st.lists(words(), min_size=1, max_size=4), max_size=4), st.sampled_from((0, 90, 180, 270)))
def test_what_is_written_is_read_again(lines: list[list[Word]], rotation: int) -> None:
    boxes = WordBoxes(lines, rotation, -3.25, 1.2941)
    assert word_boxes.parse(word_boxes.compress(word_boxes.dumps(boxes))) == boxes


def test_the_format() -> None:
    first, second = Word("Bike", 500, 1000, 900, 1150), Word("lanes", 950, 1010, 1500, 1150)
    below = Word("end", 500, 1300, 800, 1400)
    boxes = WordBoxes([[first, second], [below]], 90, -1.5, 1.2941)
    assert word_boxes.dumps(boxes) == (
        "clerk-words 1 90 -1.50 1.2941\n500 1000 400 150 Bike\n50 10 550 140 lanes\n\n-1000 290 300 100 end\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "clerk-words 2 0 0.00 1.0000\n",
        "clerk-words 1 45 0.00 1.0000\n",
        "clerk-words 1 0 0.00 1.0000\n1 2 3 word\n",
        "clerk-words 1 0 0.00 1.0000\n9999 0 2 1 outside\n",
        "clerk-words 1 0 0.00 1.0000\n0 -1 2 1 outside\n",
        "clerk-words 1 0 0.00 1.0000\n0 0 2 1 two words\n",
        "clerk-words 1 0 0.00 1.0000\n0 0 2 1 control\x02character\n",
    ],
)
def test_invalid_boxes_are_refused(text: str) -> None:
    with pytest.raises(WordBoxesInvalid):
        word_boxes.loads(text)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.words.gz").write_bytes(gzip.compress(b"\n" * (64 << 20)))
    with pytest.raises(WordBoxesInvalid, match="MiB"):
        word_boxes.load(tmp_path / "1.words.gz")
    assert word_boxes.load(tmp_path / "2.words.gz") is None


def test_words_are_cut_at_the_edges_and_have_no_spaces() -> None:
    word = word_boxes.make_word("a\x02 b\n", -5, 10, 250, 50, 200, 100)
    assert word == Word("ab", 0, 1000, SCALE, 5000)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("skew", [0.0, 6.0, -11.0])
def test_a_point_of_the_image_is_found_on_the_page(tmp_path: Path, rotation: int, skew: float) -> None:
    """A dot on a page is still at the same place after the image operations of OCR, and back."""
    page = Image.new("L", (600, 800), 255)
    page.paste(0, (195, 305, 206, 316))
    page.save(tmp_path / "page.pgm")
    path = tmp_path / "page.pgm"
    if rotation:
        page_image.rotate(path, rotation, tmp_path / "rotated.pgm")
        path = tmp_path / "rotated.pgm"
    page_image.deskew(path, skew, tmp_path / "stored.pgm")
    with Image.open(tmp_path / "stored.pgm") as stored:
        left, top, right, bottom = stored.point([255 - value for value in range(256)]).getbbox() or (0, 0, 0, 0)
        boxes = WordBoxes([], rotation, skew, stored.height / stored.width)
        x, y = (left + right) / 2 / stored.width * SCALE, (top + bottom) / 2 / stored.height * SCALE
    across, down = word_boxes.page_point(boxes, x, y)
    assert across * 600 == pytest.approx(200.5, abs=2)
    assert down * 800 == pytest.approx(310.5, abs=2)
    word = Word("dot", *(round(value) for value in (x - 50, y - 50, x + 50, y + 50)))
    on_page = word_boxes.page_word(boxes, word)
    assert on_page.left < across * SCALE < on_page.right
    assert on_page.top < down * SCALE < on_page.bottom
