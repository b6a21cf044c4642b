"""The command ``python -P -m certs``."""

import subprocess
import sys
from pathlib import Path

import pytest

FILES = ("caKey.pem", "caCert.pem", "serverKey.pem", "serverCert.pem")


def certs(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "certs", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_second_run_keeps_the_certificates(tmp_path: Path) -> None:
    arguments = ("--output-dir", str(tmp_path / "tls"), "--host", "127.0.0.1,localhost")
    assert certs(*arguments, folder=tmp_path).returncode == 0
    made = [(tmp_path / "tls" / name).read_bytes() for name in FILES]
    assert certs(*arguments, folder=tmp_path).returncode == 0
    assert [(tmp_path / "tls" / name).read_bytes() for name in FILES] == made

    assert certs(*arguments[:3], "127.0.0.1,elsewhere", folder=tmp_path).returncode == 0
    assert [(tmp_path / "tls" / name).read_bytes() for name in FILES] != made


def test_a_renewal_takes_three_runs(tmp_path: Path) -> None:
    arguments = ("--output-dir", str(tmp_path), "--host=localhost", "--settle=0s")

    def states(*more: str) -> tuple[int, bytes]:
        """Return the number of trusted authorities, and the serving certificate."""
        assert certs(*arguments, *more, folder=tmp_path).returncode == 0
        authorities = (tmp_path / "caCert.pem").read_text().count("BEGIN CERTIFICATE")
        return authorities, (tmp_path / "serverCert.pem").read_bytes()

    first = states()
    assert states("--renew", "--settle=1h") == (2, first[1])
    second = states()
    assert second[0] == 2
    assert second[1] != first[1]
    assert states("--overlap=0s") == (1, second[1])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--days=0",), "vpa-certs: argument --days: must be from 1 to 1000000: '0'\n"),
        (("--settle=-1s",), "vpa-certs: --settle and --overlap must not be negative\n"),
        (
            ("--host=vpa.example,https://10.0.0.1",),
            "vpa-certs: --host: neither a DNS name nor an address: https://10.0.0.1\n",
        ),
        (
            ("--host=grüße.example",),
            "vpa-certs: --host: neither a DNS name nor an address: grüße.example\n",
        ),
        (("--wrong",), "vpa-certs: unknown flag: --wrong\n"),
        (("--kubeconfig=nowhere",), "vpa-certs: kubeconfig nowhere: no such file\n"),
    ],
)
def test_an_invalid_command_is_one_line(
    arguments: tuple[str, ...], line: str, tmp_path: Path
) -> None:
    done = certs(*arguments, folder=tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (2, line, "")
