#!/bin/sh
# Build the reference, the Kubernetes project's VPA, from the module beside this script: `make reference`.
# Its three programs, its manifests and its chart go to .controlplane/reference/<version>/ of the checkout;
# the version is that of go.mod.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
module=k8s.io/autoscaler/vertical-pod-autoscaler

fail() {
	echo "make reference: $*" >&2
	exit 1
}

version=$(sed -n "s|^[[:space:]]*$module[[:space:]]\{1,\}\(v[^[:space:]]*\).*|\1|p" "$here/go.mod")
[ -n "$version" ] || fail "$here/go.mod doesn't require $module"
target=$root/.controlplane/reference/$version
if [ -d "$target" ]; then
	echo "The reference $version is built: $target"
	exit 0
fi

needed=$(sed -n 's/^go //p' "$here/go.mod")
command -v go >/dev/null 2>&1 || fail "Go is not installed; install Go $needed or newer"
# The installed toolchain: Go must not download another one.
export GOTOOLCHAIN=local CGO_ENABLED=0

# Built beside the target and moved when whole, so that an interrupted build leaves no half of it.
unfinished=$root/.controlplane/reference/.$version.$$
trap 'rm -rf "$unfinished"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$unfinished"

echo "Building the reference $version into $target (about two minutes on two cores)"
cd "$here"
go build -trimpath -ldflags "-s -w" -o "$unfinished/" \
	"$module/pkg/recommender" "$module/pkg/updater" "$module/pkg/admission-controller" ||
	fail "building the programs failed"
# Files of the module cache are read-only.
source=$(go list -m -f '{{.Dir}}' "$module")
cp -R "$source/deploy" "$source/charts" "$source/pkg/admission-controller/gencerts.sh" "$unfinished/"
chmod -R u+w "$unfinished"
mv "$unfinished" "$target"
