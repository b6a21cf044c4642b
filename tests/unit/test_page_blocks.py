"""Blocks of the pages: how they are read, and which of their commands no test runs."""

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml
from markdown_it import MarkdownIt

import page_commands
from admission import vpa_decoding, vpa_validation
from common.features import FeatureGates
from page_commands import ROOT, PageCommand, blocks
from role_rules import bound_roles

PAGES = page_commands.pages()
LANGUAGES = {"console", "json", "sh", "text", "yaml"}
INVALID = "invalid.yaml"  # shows a message

REGISTRY = "builds and pushes images; tests/deploy and tests/images check build and manifests"
NODE = "changes a machine that is a node of a cluster"
FORWARD = "simulated kubelets forward no ports"
RELEASE = "would install a second time; tests/install/test_chart.py runs a release"
CLI = "tests/process/test_cli_*.py and tests/e2e/test_cli.py run these commands"
NAMESPACE_VPAS = "needs an optional component; tests/e2e/test_namespace_vpas.py makes the calls"
READ_API = "tests/e2e/test_read_api.py makes the same calls"
STATIC_PODS = "tests/e2e/test_static_pods.py runs it"
# Commands that no test runs as they are on their page: the first line of each block, and why.
NOT_RUN = {
    "README.md": {
        "make demo     # run five workloads in a sandbox cluster, within three minutes": (
            "takes a minute; tests/process/test_demo.py runs its program"
        ),
        "make images REGISTRY=your.registry/your-team TAG=0.1.0 PUSH=1": REGISTRY,
        ".venv/bin/python -P -m sandbox demo.yaml --kubeconfig ./kubeconfig": (
            "runs until Ctrl-C; tests/process/test_demo.py runs it as the demo's cluster"
        ),
    },
    page_commands.CHART: {
        "helm install vpa deploy/chart --namespace kube-system"
        " --set image.registry=your.registry/your-team": RELEASE,
        "helm upgrade vpa deploy/chart --namespace kube-system --reset-then-reuse-values": RELEASE,
        "helm rollback vpa --namespace kube-system": RELEASE,
        "helm uninstall vpa --namespace kube-system": RELEASE,
        "kubectl delete crd verticalpodautoscalers.autoscaling.k8s.io"
        " verticalpodautoscalercheckpoints.autoscaling.k8s.io": "would delete all VPAs",
        "helm install vpa deploy/chart --namespace kube-system --take-ownership"
        " --set image.registry=your.registry/your-team": RELEASE,
    },
    "docs/capacity.md": {
        "kubectl delete capacitybuffers,podtemplates --all-namespaces"
        " -l app.kubernetes.io/managed-by=vpa-updater": "needs an autoscaler's definition",
    },
    "docs/configuration.md": {
        "kubectl run probe --image=example --as=system:serviceaccount:kube-system:vpa-updater": (
            "needs the component dry-run-preflight; tests/e2e/test_preflight.py has the same call"
        ),
    },
    "docs/control-plane.md": {
        "kubectl -n kube-system delete deployment,poddisruptionbudget,service"
        " -l app.kubernetes.io/name=vertical-pod-autoscaler": STATIC_PODS,
        "export KUBECONFIG=/etc/kubernetes/admin.conf": "needs kubeadm",
        "SERVER=https://10.0.0.10:6443 PKI=/etc/kubernetes/pki": STATIC_PODS,
        "for name in vpa-recommender vpa-updater vpa-admission-controller; do": NODE,
        "python3 -m venv /opt/vpa": NODE,
        "for name in recommender updater admission-controller; do": NODE,
        'for port in 8942 8943 8944; do curl -s "http://127.0.0.1:$port/readyz"; done': NODE,
        "kubectl get mutatingwebhookconfiguration vpa-webhook-config"
        " -o jsonpath='{.webhooks[0].clientConfig.url}'": (
            "needs the components beside the API server; tests/e2e/test_static_pods.py checks it"
        ),
        "crictl stop $(crictl ps --quiet --name '^(recommender|updater|admission-controller)$')"
        "    # static pods": NODE,
        "rm -f /etc/kubernetes/manifests/vpa-*.yaml"
        "                                   # static pods": NODE,
        "kubectl apply -k deploy/                  # continue with Deployments": (
            "one of two ends; docs/upgrade.md has the first, test_static_pods.py the second"
        ),
    },
    "docs/how-a-number-is-made.md": {
        "kubectl -n kube-system port-forward deployment/vpa-recommender 8942 &": FORWARD,
    },
    "docs/install.md": {
        "make images REGISTRY=your.registry/your-team TAG=0.1.0 PUSH=1": REGISTRY,
        "helm install vpa deploy/chart --namespace kube-system"
        " --set image.registry=your.registry/your-team": RELEASE,
    },
    "docs/kubectl-vpa-output.md": {
        'kubectl vpa status -A -o json | jq -r \'.items[] | select(.state == "blocked") |'
        ' "\\(.namespace)/\\(.name) \\(.message)"\'': CLI,
    },
    "docs/kubectl-vpa.md": {
        "pip install '.[cli]'": "installs a program; make release-check does so",
        "kubectl vpa completion kubectl >~/.local/bin/kubectl_complete-vpa": CLI,
        "kubectl vpa simulate -n shop --target-cpu-percentile=0.99 --max-allowed=memory=300Mi": CLI,
        "kubectl -n monitoring port-forward svc/prometheus-operated 9090 &": CLI,
        "kubectl vpa report -A -o html >report.html": CLI,
        "kubectl vpa create -n shop --mode Initial --max-allowed cpu=2,memory=4Gi >vpas.yaml": CLI,
        "kubectl vpa export -A >vpas.yaml": CLI,
        "kubectl vpa export -n shop --as kustomize >recommendations/kustomization.yaml": CLI,
        "kubectl create role vpa-components --verb=get --resource=pods/proxy -n kube-system": (
            "needs a real API server; tests/e2e/test_cli.py gives a person this permission"
        ),
    },
    "docs/monitoring.md": {
        "kubectl apply -k deploy/monitoring": (
            "needs the Prometheus Operator; tests/deploy/test_monitoring.py checks the objects"
        ),
    },
    "docs/namespace-vpas.md": {
        "kubectl label namespace shop vpa.autoscaling/enable=true": NAMESPACE_VPAS,
        "kubectl label vpa web -n shop vpa.autoscaling/created-by-": NAMESPACE_VPAS,
        "kubectl label namespace shop vpa.autoscaling/enable-": NAMESPACE_VPAS,
        "kubectl label vpa -n shop -l vpa.autoscaling/created-by=vpa-recommender"
        " vpa.autoscaling/created-by-": NAMESPACE_VPAS,
        "kubectl delete vpa -A -l vpa.autoscaling/created-by=vpa-recommender": NAMESPACE_VPAS,
    },
    "docs/quick-start.md": {
        "kind create cluster": "needs a container engine",
        "make images REGISTRY=your.registry/your-team TAG=0.1.0 PUSH=1": REGISTRY,
        "make images REGISTRY=your.registry/your-team TAG=0.1.0 PLATFORMS=linux/amd64": REGISTRY,
    },
    "docs/read-api.md": {
        "pod=$(kubectl -n kube-system get pods -l app=vpa-updater -o name | head -n 1)": READ_API,
        "kubectl -n kube-system port-forward deployment/vpa-updater 8943 &": FORWARD,
        "token=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)": READ_API,
        "kubectl create role vpa-reader --verb=get"
        " --resource=verticalpodautoscalers.autoscaling.k8s.io -n shop": READ_API,
    },
    "docs/troubleshooting.md": {
        "kubectl -n kube-system port-forward deployment/vpa-admission-controller 8944 &": FORWARD,
        "curl -s localhost:8944/metrics | grep '^vpa_admission_controller_reviews_total'": FORWARD,
    },
    "docs/uninstall.md": {
        "kubectl apply -k deploy/crd": "creates objects that exist in the cluster of the tests",
    },
}


@pytest.mark.parametrize(
    ("shown", "printed", "want"),
    [
        pytest.param("a b\n", "a   b\n", True, id="spaces between columns"),
        pytest.param("a b\n", "a c\n", False, id="another text"),
        pytest.param("a …\n", "a 12s\n", True, id="rest of a line"),
        pytest.param("a …\n", "a 12s\nb\n", False, id="… within a line is one line"),
        pytest.param("…\nb\n", "x\ny\nb\n", True, id="… alone is any lines"),
        pytest.param("…\nb\n", "b\n", True, id="… alone is also no line"),
        pytest.param("…\nb\n", "x\nbc\n", False, id="the line after … counts"),
        pytest.param("", "", True, id="no output"),
        pytest.param("", "a\n", False, id="unexpected output"),
        pytest.param("(a) [b]\n", "(a) [b]\n", True, id="no pattern of its own"),
    ],
)
def test_an_output_matches(shown: str, printed: str, *, want: bool) -> None:
    assert PageCommand("page.md", "command", shown).matches(printed) is want


def test_blocks_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_commands, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text(
        '# A\n```yaml title="a.yaml"\nkind: A\n```\n'
        "```console\n$ one \\\n    more\nfirst\nsecond\n$ two\n```\n"
        "```sh\nthree\n```\n```console\n$ four | \\\n  five\n```\n"
        + '```yaml title="kustomization.yaml"\nresources: [deploy]\n```\n'
        * 2
    )
    found = page_commands.commands("a.md")
    assert [each.command for each in found] == ["one \\\n    more", "two", "four | \\\n  five"]
    assert [each.output for each in found] == ["first\nsecond\n", "", ""]
    assert page_commands.manifests("a.md") == {"a.yaml": "kind: A\n"}
    assert page_commands.overlays("a.md") == ["resources: [deploy]\n"] * 2


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param(
            "```console\noutput\n$ one\n```\n",
            page_commands.commands,
            id="output before the first command",
        ),
        pytest.param(
            '```yaml title="a"\na: 1\n```\n' * 2,
            page_commands.manifests,
            id="two manifests of one name",
        ),
    ],
)
def test_a_mistake_on_a_page_is_reported(
    text: str, read: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_commands, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text(text)
    with pytest.raises(ValueError, match=r"a\.md"):
        read("a.md")


@pytest.mark.parametrize("page", PAGES)
def test_blocks_have_a_known_form(page: str) -> None:
    markdown = (ROOT / page).read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").parse(markdown)
    assert [token.content for token in tokens if token.type == "code_block"] == []  # indented
    found = blocks(page)
    assert len(found) == len([token for token in tokens if token.type == "fence"])
    for block in found:
        assert block.language in LANGUAGES, block
        titled = block.language == "yaml"
        assert bool(block.title) is titled or block.language == "text", block
        assert block.language == "console" or not re.search(r"^\$ ", block.text, re.MULTILINE)


def test_commands_of_every_page_are_run_somewhere() -> None:
    places = Counter(
        page
        for place in ("SANDBOX", "CONTROL_PLANE", "COMPONENTS", "REFERENCE")
        for page in getattr(page_commands, place)
    )
    want = {page for page in PAGES if page_commands.commands(page) or page_commands.objects(page)}
    assert want - {page_commands.CHART} <= set(places)
    assert set(places.values()) == {1}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in page_commands.REFERENCE])
def test_commands_that_are_not_run_have_a_reason(page: str) -> None:
    found = [block.text.partition("\n")[0] for block in blocks(page) if block.language == "sh"]
    assert found == list(NOT_RUN.get(page, {}))


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_are_not_run_are_valid_shell(page: str) -> None:
    for block in blocks(page):
        if block.language == "sh":
            done = subprocess.run(
                ("bash", "-n"), input=block.text, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), block.text


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_targets_of_make_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"(?:^ *|`)make (?:-n )?([a-z][a-z0-9-]*)", text, re.MULTILINE)
    assert set(named) <= targets


@pytest.mark.parametrize("page", PAGES)
def test_vpas_of_pages_are_valid(page: str) -> None:
    for name, text in page_commands.manifests(page).items():
        for each in yaml.safe_load_all(text):
            if "kind" in each and each["kind"] == "VerticalPodAutoscaler" and name != INVALID:
                vpa = vpa_decoding.decode(msgspec.json.encode(each))
                gates = FeatureGates.parse("CPUStartupBoost=true")
                verdict = vpa_validation.admit_vpa(vpa, None, gates)
                assert (verdict.errors, verdict.warnings, verdict.patches) == ((), (), ())


def test_the_jobs_of_the_schedule_run_the_commands_of_the_page_and_may_do_so(
    tmp_path: Path,
) -> None:
    page = "docs/eviction-requirements.md"
    (tmp_path / "schedule.yaml").write_text(page_commands.manifests(page)["schedule.yaml"])
    by_hand = [shlex.split(each.command) for each in page_commands.commands(page)]
    jobs = [each for each in page_commands.objects(page) if each["kind"] == "CronJob"]
    assert len(jobs) == 2
    for job in jobs:
        spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert container["command"] in by_hand
        (role,) = bound_roles(spec["serviceAccountName"], folder=tmp_path)
        (rule,) = role["rules"]
        assert rule["resources"] == ["verticalpodautoscalers"]
        assert "patch" in rule["verbs"]
        assert set(rule["resourceNames"]) <= set(container["command"])
