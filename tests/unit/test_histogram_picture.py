"""docs/histogram.svg is what its program draws from the recommender's model."""

from xml.etree import ElementTree as ET

import numpy as np
import pytest

import histogram_picture
from recommender.model.aggregates import Aggregates, HalfLives


def test_the_picture_is_up_to_date() -> None:
    same = histogram_picture.PICTURE.read_text(encoding="utf-8") == histogram_picture.picture()
    assert same, "PYTHONPATH=. python -P docs/histogram_picture.py updates docs/histogram.svg"


def test_the_picture_shows_the_percentiles_of_the_history() -> None:
    table = Aggregates(HalfLives())
    table.load(table.new(), histogram_picture.history())
    fractions = tuple(fraction for fraction, _ in histogram_picture.PERCENTILES)
    found = table.cpu.percentiles(np.array([0]), fractions)[0].tolist()
    root = ET.fromstring(histogram_picture.picture())
    texts = [each.text or "" for each in root.iter() if each.tag.endswith("text")]
    shown = [text for text in texts if "of the weight: " in text]
    assert [f": {value}m (" in text for value, text in zip(found, shown, strict=True)] == [True] * 3


@pytest.mark.parametrize(("hour", "want"), [(2, 150), (14, 450), (20, 300)])
def test_the_usage_of_the_example(hour: int, want: int) -> None:
    assert histogram_picture.usage(histogram_picture.END.replace(hour=hour)) == want
