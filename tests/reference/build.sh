#!/bin/sh
# Build the reference, the Kubernetes project's VPA, from the module beside this script: `make reference`.
# Its three programs, its manifests and its chart go to .controlplane/reference/<version>/ of the checkout;
# the version is that of go.mod.
set -eu

make_target=reference
. "$(dirname "$0")/../helpers/go_modules.sh"
module=k8s.io/autoscaler/vertical-pod-autoscaler

version=$(required_version "$module" "$here/go.mod")
target=$root/.controlplane/reference/$version
if [ -d "$target" ]; then
	echo "The reference $version is built: $target"
	exit 0
fi

use_go "$(needed_go "$here/go.mod")"
begin "$target"
echo "Building the reference $version into $target (about two minutes on two cores)"
cd "$here"
go build -trimpath -ldflags "-s -w" -o "$unfinished/" \
	"$module/pkg/recommender" "$module/pkg/updater" "$module/pkg/admission-controller" ||
	fail "building the programs failed"
# Files of the module cache are read-only.
source=$(go list -m -f '{{.Dir}}' "$module")
cp -R "$source/deploy" "$source/charts" "$source/pkg/admission-controller/gencerts.sh" "$unfinished/"
chmod -R u+w "$unfinished"
finish "$target"
