#!/bin/sh
# Build etcd and Kubernetes' own servers from the modules beside this script: `make controlplane`.
# They go to .controlplane/<version>/ of the checkout; the version is that of kubernetes/go.mod.
# With KUBEBUILDER_ASSETS set, the programs there are used, and nothing is built.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
programs="etcd kube-apiserver kube-controller-manager kube-scheduler"

fail() {
	echo "make controlplane: $*" >&2
	exit 1
}

# missing FOLDER: the programs that aren't there
missing() {
	for program in $programs; do
		[ -x "$1/$program" ] || printf ' %s' "$program"
	done
}

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
	lacking=$(missing "$KUBEBUILDER_ASSETS")
	[ -z "$lacking" ] || fail "KUBEBUILDER_ASSETS is set to $KUBEBUILDER_ASSETS, which lacks:$lacking"
	echo "KUBEBUILDER_ASSETS is set: using the control plane in $KUBEBUILDER_ASSETS"
	exit 0
fi

version=$(sed -n 's/^[[:space:]]*\(require[[:space:]]\{1,\}\)\{0,1\}k8s\.io\/kubernetes[[:space:]]\{1,\}\(v[^[:space:]]*\).*/\2/p' \
	"$here/kubernetes/go.mod")
[ -n "$version" ] || fail "$here/kubernetes/go.mod doesn't require k8s.io/kubernetes"
target=$root/.controlplane/$version
lacking=$(missing "$target")
if [ -z "$lacking" ]; then
	echo "Kubernetes $version is built: $target"
	exit 0
fi

needed=$(sed -n 's/^go //p' "$here/kubernetes/go.mod")
advice="install Go $needed or newer, or set KUBEBUILDER_ASSETS to a folder with$lacking"
command -v go >/dev/null 2>&1 || fail "Go is not installed; $advice"
# The toolchain at hand, never one that Go would download by itself.
export GOTOOLCHAIN=local CGO_ENABLED=0
present=$(go env GOVERSION)
present=${present#go}
oldest=$(printf '%s\n%s\n' "$needed" "${present%% *}" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)
[ "$oldest" = "$needed" ] || fail "Go $present is too old; $advice"

# Built beside the target and moved when whole: who interrupts this leaves no half program.
unfinished=$root/.controlplane/.$version.$$
trap 'rm -rf "$unfinished"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$unfinished" "$target"

stamp=k8s.io/component-base/version
minor=${version#v*.}
flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"

# build NUMBER PROGRAM MODULE PACKAGE
build() {
	began=$(date +%s)
	printf '[%s/4] %s ... ' "$1" "$2"
	(cd "$here/$3" && go build -trimpath -ldflags "$flags" -o "$unfinished/$2" "$4") ||
		fail "building $2 failed"
	mv "$unfinished/$2" "$target/$2"
	echo "$(($(date +%s) - began)) s"
}

echo "Building the control plane of Kubernetes $version with Go $present into $target"
echo "(the first time takes about six minutes on two cores, and downloads the modules)"
build 1 etcd etcd go.etcd.io/etcd/server/v3
build 2 kube-apiserver kubernetes k8s.io/kubernetes/cmd/kube-apiserver
build 3 kube-controller-manager kubernetes k8s.io/kubernetes/cmd/kube-controller-manager
build 4 kube-scheduler kubernetes k8s.io/kubernetes/cmd/kube-scheduler
du -sh "$target" | sed 's/[[:space:]].*/ in all/'
