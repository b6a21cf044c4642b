#!/bin/sh
# Build helm from the module beside this script: `make helm`.
# It goes to .controlplane/helm/<version>/ of the checkout; the version is that of go.mod.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

fail() {
	echo "make helm: $*" >&2
	exit 1
}

version=$(sed -n 's/^[[:space:]]*helm\.sh\/helm\/v3[[:space:]]\{1,\}\(v[^[:space:]]*\).*/\1/p' "$here/go.mod")
[ -n "$version" ] || fail "$here/go.mod doesn't require helm.sh/helm/v3"
target=$root/.controlplane/helm/$version
if [ -x "$target/helm" ]; then
	echo "Helm $version is built: $target"
	exit 0
fi

needed=$(sed -n 's/^go //p' "$here/go.mod")
command -v go >/dev/null 2>&1 || fail "Go is not installed; install Go $needed or newer"
# The installed toolchain: Go must not download another one.
export GOTOOLCHAIN=local CGO_ENABLED=0

# Built beside the target and moved when whole, so that an interrupted build leaves no half program.
mkdir -p "$target"
unfinished=$target/.helm.$$
trap 'rm -f "$unfinished"' EXIT
trap 'exit 130' INT TERM

echo "Building Helm $version into $target (about two minutes on two cores)"
# Helm takes the Kubernetes version that it knows from the linker, and counts as 1.20 without it.
minor=$(sed -n 's/^[[:space:]]*k8s\.io\/client-go[[:space:]]\{1,\}v0\.\([0-9]*\).*/\1/p' "$here/go.mod")
flags="-s -w -X helm.sh/helm/v3/internal/version.version=$version"
for package in chartutil lint/rules; do
	flags="$flags -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"
done
(cd "$here" && go build -trimpath -ldflags "$flags" -o "$unfinished" helm.sh/helm/v3/cmd/helm) ||
	fail "building helm failed"
mv "$unfinished" "$target/helm"
