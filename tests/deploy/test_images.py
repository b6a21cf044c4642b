"""``make images``: the commands for each engine, and what is refused."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.images import (
    ENGINES,
    TARGETS,
    Command,
    Request,
    UsageError,
    build_arguments,
    commands,
    find_engine,
    image_names,
    main,
    source_url,
    version,
)

ROOT = Path(__file__).parents[2]
BOTH, ONE = "linux/amd64,linux/arm64", "linux/arm64"
ARGUMENTS = (("VERSION", "1.2.3"), ("SOURCE", "https://git.example/vpa"))
RECIPE = (
    "--file=deploy/Dockerfile --target=certs --platform={platforms} "
    "--build-arg=VERSION=1.2.3 --build-arg=SOURCE=https://git.example/vpa"
)
NAME = "registry.example/team/vpa-certs:1.2.3"
ATTESTED = "--sbom=true --provenance=mode=max"
SCANNED = "--sbom=syft-cyclonedx --sbom-image-output=/sbom.cdx.json"


def request(*, platforms: str = BOTH, push: bool = False) -> Request:
    return Request(
        registry="registry.example/team",
        tag="1.2.3",
        platforms=platforms,
        push=push,
        arguments=ARGUMENTS,
    )


@pytest.mark.parametrize(
    ("engine", "asked", "wanted"),
    [
        pytest.param(
            "docker",
            request(push=True),
            [f"docker buildx build {RECIPE} {ATTESTED} --push --tag={NAME} ."],
            id="docker pushes images of all platforms with attestations",
        ),
        pytest.param(
            "docker",
            request(),
            [f"docker buildx build {RECIPE} {ATTESTED} --tag={NAME} ."],
            id="docker keeps images of several platforms in its cache",
        ),
        pytest.param(
            "docker",
            request(platforms=ONE),
            [f"docker buildx build {RECIPE} --load --tag={NAME} ."],
            id="docker loads an image of one platform, without attestations",
        ),
        pytest.param(
            "podman",
            request(push=True),
            [
                f"podman manifest rm {NAME} || true",
                f"podman build {RECIPE} {SCANNED} --manifest={NAME} .",
                f"podman manifest push --all {NAME} docker://{NAME}",
            ],
            id="podman replaces the manifest list, and pushes it with all images",
        ),
        pytest.param(
            "/opt/bin/buildah",
            request(platforms=ONE),
            [
                f"/opt/bin/buildah manifest rm {NAME} || true",
                f"/opt/bin/buildah build {RECIPE} {SCANNED} --manifest={NAME} .",
            ],
            id="an engine given by its path has the same commands",
        ),
    ],
)
def test_the_commands_of_an_image(engine: str, asked: Request, wanted: list[str]) -> None:
    of_one = [str(each) for each in commands(engine, asked) if NAME in str(each)]
    assert of_one == [each.format(platforms=asked.platforms) for each in wanted]


def pushed(made: list[Command]) -> list[str]:
    """Return the images that the commands push."""
    names = []
    for words in (command.words for command in made):
        if "--push" in words:
            names += [each.removeprefix("--tag=") for each in words if each.startswith("--tag=")]
        if words[1:3] == ("manifest", "push"):
            names += [words[-1].removeprefix("docker://")]
    return names


@pytest.mark.parametrize("engine", ENGINES)
def test_each_image_is_pushed_once(engine: str) -> None:
    names = image_names("registry.example/team", "1.2.3")
    assert pushed(commands(engine, request(push=True))) == names
    assert pushed(commands(engine, request())) == []
    assert names == [
        "registry.example/team/vpa-recommender:1.2.3",
        "registry.example/team/vpa-updater:1.2.3",
        "registry.example/team/vpa-admission-controller:1.2.3",
        "registry.example/team/vpa-certs:1.2.3",
    ]


@pytest.mark.parametrize(
    ("installed", "found"),
    [
        pytest.param({"buildah", "podman", "docker"}, "docker", id="docker comes first"),
        pytest.param({"buildah", "podman"}, "podman", id="then podman"),
        pytest.param({"buildah"}, "buildah", id="then buildah"),
    ],
)
def test_the_engine(installed: set[str], found: str) -> None:
    assert find_engine(lambda name: name if name in installed else None) == found


def test_without_an_engine_the_message_names_the_supported_ones() -> None:
    with pytest.raises(UsageError, match="docker, podman or buildah"):
        find_engine(lambda _: None)
    with pytest.raises(UsageError, match="nerdctl is not supported"):
        commands("nerdctl", request())


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://git.example/team/vpa.git", "https://git.example/team/vpa"),
        ("https://user:secret@git.example:8443/vpa", "https://git.example:8443/vpa"),
        ("git@git.example:team/vpa.git", "https://git.example/team/vpa"),
        ("ssh://git@git.example:2222/team/vpa.git", "https://git.example/team/vpa"),
        ("/srv/git/vpa.git", ""),
        ("file:///srv/git/vpa.git", ""),
        ("", ""),
    ],
)
def test_the_address_of_the_source_has_no_credentials(remote: str, address: str) -> None:
    assert source_url(remote) == address


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ((), "REGISTRY and TAG missing"),
        (("--registry=registry.example",), "TAG missing"),
        (("--tag=1.2.3", "--registry="), "REGISTRY missing"),
    ],
)
def test_a_missing_value_is_one_line_with_the_command_to_type(
    flags: tuple[str, ...], missing: str
) -> None:
    command = [sys.executable, "-P", str(ROOT / "deploy/images.py"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"images: {missing}; type: make images REGISTRY=")


def test_a_dry_run_prints_what_a_run_executes(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    engine = tmp_path / "docker"  # reports its arguments
    engine.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    engine.chmod(0o755)
    flags = [f"--engine={engine}", "--registry=r.example/", "--tag=1", "--source=https://s.example"]
    main([*flags, "--dry-run"])
    printed = capfd.readouterr().out.splitlines()
    main(flags)
    executed = capfd.readouterr().out.splitlines()
    assert len(printed) == len(TARGETS)
    assert executed == [each for line in printed for each in (line, *shlex.split(line)[1:])]


def test_make_n_prints_the_commands() -> None:
    variables = [
        "REGISTRY=r.example",
        "TAG=1",
        "SOURCE=https://s.example",
        "ENGINE=podman",
        "PUSH=1",
    ]
    command = ["make", "-n", "--no-print-directory", "images", f"PYTHON={sys.executable}"]
    done = subprocess.run(
        [*command, *variables], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("podman")] == [
        *["manifest", "build", "manifest"] * len(TARGETS),
    ]
    assert [name for name in image_names("r.example", "1") if name not in done.stdout] == []


def test_labels_describe_this_checkout() -> None:
    arguments = dict(build_arguments("https://s.example"))
    assert list(arguments) == ["VERSION", "REVISION", "CREATED", "SOURCE"]
    assert arguments["VERSION"] == version()
    assert len(arguments["REVISION"].removesuffix("-dirty")) == 40
    assert arguments["CREATED"][10] == "T"
    assert arguments["SOURCE"] == "https://s.example"
