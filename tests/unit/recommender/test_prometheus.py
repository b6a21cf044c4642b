"""Address and credentials of Prometheus."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigError
from recommender.sources.prometheus import PrometheusServer
from recommender.sources.usage_source_settings import UsageSourceSettings

ENVIRON = {"PROMETHEUS_USERNAME": "env", "PROMETHEUS_PASSWORD": "iron"}


def server(environ: Mapping[str, str] | None = None, **flags: Any) -> PrometheusServer:
    address = flags.pop("address", "http://prometheus:9090")
    settings = UsageSourceSettings(prometheus_address=address, **flags)
    return PrometheusServer.of(settings, environ or {})


@pytest.mark.parametrize(
    ("flags", "header"),
    [
        pytest.param({}, "", id="no credentials"),
        pytest.param({"prometheus_bearer_token": "t"}, "Bearer t", id="a token"),
        pytest.param(
            {"prometheus_bearer_token": "t", "username": "u", "password": "p"},
            "Bearer t",
            id="a token takes precedence",
        ),
        pytest.param(
            {"username": "u", "password": "p"}, "Basic dTpw", id="a user name and password"
        ),
        pytest.param(
            {"environ": ENVIRON},
            "Basic ZW52Omlyb24=",
            id="a user name and password from the environment",
        ),
        pytest.param(
            {"username": "u", "password": "p", "environ": ENVIRON},
            "Basic dTpw",
            id="flags take precedence",
        ),
        pytest.param(
            {"username": "u", "environ": ENVIRON},
            "Basic ZW52Omlyb24=",
            id="a user name without a password is ignored",
        ),
        pytest.param(
            {"environ": {"PROMETHEUS_USERNAME": "u"}},
            "",
            id="a user name without a password in the environment",
        ),
        pytest.param({"address": "http://u:p@prometheus:9090"}, "Basic dTpw", id="in the address"),
    ],
)
def test_authorization_header(flags: dict[str, Any], header: str) -> None:
    assert server(**flags).authorization() == header


def test_a_token_file_takes_precedence_and_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(" first\n", encoding="utf-8")
    found = server(prometheus_bearer_token="t", prometheus_bearer_token_file=str(file))
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
        pytest.param(
            {"address": "http://prometheus:99999999"}, "is not a URL", id="an invalid port"
        ),
        pytest.param({"address": ""}, "is not a URL", id="empty"),
        pytest.param(
            {"prometheus_bearer_token_file": "/nowhere/token"}, "No such file", id="no file"
        ),
    ],
)
def test_invalid_settings(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        server(**flags)


def test_no_secret_is_in_texts_for_logs() -> None:
    found = server(
        address="http://me:hidden1@prometheus/path?t=hidden4",
        prometheus_bearer_token="hidden2",
        password="hidden3",
    )
    assert repr(found) == "PrometheusServer('http://prometheus/path')"
    with pytest.raises(ConfigError) as refused:
        server(address="ftp://me:hidden1@prometheus")
    assert "hidden" not in str(refused.value)
