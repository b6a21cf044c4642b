"""Where Prometheus is, and how it knows us."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigError
from recommender.sources.prometheus import PrometheusServer

FLAGS: dict[str, Any] = {
    "address": "http://prometheus:9090",
    "insecure": False,
    "timeout": timedelta(minutes=5),
    "token": "",
    "token_file": "",
    "username": "",
    "password": "",
    "environ": {},
}
ENVIRON = {"PROMETHEUS_USERNAME": "env", "PROMETHEUS_PASSWORD": "iron"}


def server(**flags: Any) -> PrometheusServer:
    return PrometheusServer.of(**{**FLAGS, **flags})


@pytest.mark.parametrize(
    ("flags", "header"),
    [
        pytest.param({}, "", id="nobody"),
        pytest.param({"token": "t"}, "Bearer t", id="a token"),
        pytest.param(
            {"token": "t", "username": "u", "password": "p"}, "Bearer t", id="a token goes first"
        ),
        pytest.param({"username": "u", "password": "p"}, "Basic dTpw", id="a user"),
        pytest.param({"environ": ENVIRON}, "Basic ZW52Omlyb24=", id="a user from outside"),
        pytest.param(
            {"username": "u", "password": "p", "environ": ENVIRON}, "Basic dTpw", id="flags first"
        ),
        pytest.param(
            {"username": "u", "environ": ENVIRON}, "Basic ZW52Omlyb24=", id="half a user is none"
        ),
        pytest.param({"environ": {"PROMETHEUS_USERNAME": "u"}}, "", id="half a user from outside"),
        pytest.param({"address": "http://u:p@prometheus:9090"}, "Basic dTpw", id="in the address"),
    ],
)
def test_who_asks(flags: dict[str, Any], header: str) -> None:
    assert server(**flags).authorization() == header


def test_a_token_in_a_file_goes_before_the_other_and_may_change(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(" first\n", encoding="utf-8")
    found = server(token="t", token_file=str(file))
    assert found.authorization() == "Bearer first"
    file.write_text("second", encoding="utf-8")
    assert found.authorization() == "Bearer second"
    file.unlink()
    with pytest.raises(ConfigError, match="can't read --prometheus-bearer-token-file"):
        found.authorization()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        pytest.param({"address": "prometheus:9090"}, "is not a URL", id="no scheme"),
        pytest.param({"address": "ftp://prometheus"}, "is not a URL", id="another scheme"),
        pytest.param({"address": "http://"}, "is not a URL", id="no host"),
        pytest.param({"address": "http://prometheus:99999999"}, "is not a URL", id="no port"),
        pytest.param({"address": ""}, "is not a URL", id="nothing"),
        pytest.param({"token_file": "/nowhere/token"}, "No such file", id="no file"),
    ],
)
def test_what_cannot_be_used(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        server(**flags)


def test_no_secret_reaches_a_log() -> None:
    found = server(
        address="http://me:hidden1@prometheus/path?t=hidden4", token="hidden2", password="hidden3"
    )
    assert repr(found) == "Server('http://prometheus/path')"
    with pytest.raises(ConfigError) as refused:
        server(address="ftp://me:hidden1@prometheus")
    assert "hidden" not in str(refused.value)
