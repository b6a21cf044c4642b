"""How much ConfigMaps and Secrets may hold: 1 MiB of values, decoded."""

import pytest

from sandbox.objects.rules.data import config_map_causes, secret_causes

MEBIBYTE = 1024 * 1024
WHOLE = "YWFh" * (MEBIBYTE // 3) + "YQ=="  # base64 of so many bytes


@pytest.mark.parametrize(
    ("data", "binary", "fits"),
    [
        pytest.param({"a": "a" * MEBIBYTE}, {}, True, id="just enough"),
        pytest.param({"a": "a" * MEBIBYTE, "b": "b"}, {}, False, id="a byte too much"),
        pytest.param({"a": "ä" * (MEBIBYTE // 2)}, {}, True, id="letters of two bytes"),
        pytest.param({}, {"a": WHOLE}, True, id="base64 counts decoded"),
        pytest.param({"b": "b"}, {"a": WHOLE}, False, id="both count"),
    ],
)
def test_config_maps(data: dict[str, str], binary: dict[str, str], *, fits: bool) -> None:
    found = [cause.field for cause in config_map_causes({"data": data, "binaryData": binary})]
    assert found == ([] if fits else ["[]"])


@pytest.mark.parametrize(("text", "fits"), [(WHOLE, True), (WHOLE + "YQ==", False)])
def test_secrets(text: str, *, fits: bool) -> None:
    found = [cause.reason for cause in secret_causes({"data": {"a": text}})]
    assert found == ([] if fits else ["FieldValueTooLong"])
