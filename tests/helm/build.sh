#!/bin/sh
# Build helm from the module beside this script: `make helm`.
# It goes to .controlplane/helm/<version>/ of the checkout; the version is that of go.mod.
set -eu

make_target=helm
. "$(dirname "$0")/../helpers/go_modules.sh"

version=$(required_version helm.sh/helm/v3 "$here/go.mod")
target=$root/.controlplane/helm/$version
if [ -x "$target/helm" ]; then
	echo "Helm $version is built: $target"
	exit 0
fi

use_go "$(needed_go "$here/go.mod")"
begin "$target"
echo "Building Helm $version into $target (about two minutes on two cores)"
# Helm takes the Kubernetes version that it knows from the linker, and counts as 1.20 without it.
client=$(required_version k8s.io/client-go "$here/go.mod")
minor=$(echo "$client" | cut -d. -f2)
flags="-s -w -X helm.sh/helm/v3/internal/version.version=$version"
for package in chartutil lint/rules; do
	flags="$flags -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"
done
cd "$here"
go build -trimpath -ldflags "$flags" -o "$unfinished/helm" helm.sh/helm/v3/cmd/helm || fail "building helm failed"
finish "$target"
