#!/bin/sh
# Build etcd and Kubernetes' own servers from the modules beside this script: `make controlplane`.
# They go to .controlplane/<version>/ of the checkout; the version is that of kubernetes/go.mod.
# With KUBEBUILDER_ASSETS set, the programs there are used, and nothing is built.
set -eu

make_target=controlplane
. "$(dirname "$0")/../helpers/go_modules.sh"
programs="etcd kube-apiserver kube-controller-manager kube-scheduler"

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

version=$(required_version k8s.io/kubernetes "$here/kubernetes/go.mod")
target=$root/.controlplane/$version
if [ -z "$(missing "$target")" ]; then
	echo "Kubernetes $version is built: $target"
	exit 0
fi

use_go "$(needed_go "$here/kubernetes/go.mod")" "set KUBEBUILDER_ASSETS to a folder with $programs"
begin "$target"

stamp=k8s.io/component-base/version
minor=$(echo "$version" | cut -d. -f2)
flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor"

# build NUMBER PROGRAM MODULE PACKAGE
build() {
	began=$(date +%s)
	printf '[%s/4] %s ... ' "$1" "$2"
	(cd "$here/$3" && go build -trimpath -ldflags "$flags" -o "$unfinished/$2" "$4") ||
		fail "building $2 failed"
	echo "$(($(date +%s) - began)) s"
}

echo "Building the control plane of Kubernetes $version with Go $installed into $target"
echo "(the first time takes about six minutes on two cores, and downloads the modules)"
build 1 etcd etcd go.etcd.io/etcd/server/v3
build 2 kube-apiserver kubernetes k8s.io/kubernetes/cmd/kube-apiserver
build 3 kube-controller-manager kubernetes k8s.io/kubernetes/cmd/kube-controller-manager
build 4 kube-scheduler kubernetes k8s.io/kubernetes/cmd/kube-scheduler
finish "$target"
du -sh "$target" | sed 's/[[:space:]].*/ in all/'
